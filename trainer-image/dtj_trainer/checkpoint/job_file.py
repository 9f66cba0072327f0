"""job.json: the settings that made the checkpoints of a directory, to refuse a resume with incompatible ones."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dtj_trainer.checkpoint.trainings import TrainingId
from dtj_trainer.context import TrainContext
from dtj_trainer.contract import job_of
from dtj_trainer.data.sharding import BatchSize
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.storage.folder import Folder, json_text, read_json
from dtj_trainer.storage.open import open_folder
from dtj_trainer.strategy.choose import FAMILIES

NAME = "job.json"


@dataclass(frozen=True, slots=True)
class JobFile:
    """The contents of job.json."""

    step: int
    epoch: int
    examples: int
    strategy: str
    replicas: int
    workers: int
    seed: int
    accumulate: int
    global_batch: int | None
    global_batch_given: int | None
    """`batch_size` as it was given; None if the per-replica size was given, none, or batches."""
    job: str
    """The job's hash."""
    attempt: int
    versions: Mapping[str, str]
    pass_batches: int | None = None
    """The batches of a pass over the data, if known: a restart of this job does not count them again."""

    @classmethod
    def of(
        cls, context: TrainContext, batch_size: BatchSize, seed: int, accumulate: int, pass_batches: int | None = None
    ) -> "JobFile":
        """Return the settings of the training in this process."""
        import keras
        import tensorflow as tf

        return cls(
            step=0,
            epoch=0,
            examples=0,
            strategy=context.choice.type,
            replicas=context.replicas,
            workers=context.workers,
            seed=seed,
            accumulate=accumulate,
            global_batch=batch_size.total,
            global_batch_given=batch_size.given,
            job=context.environment.job_hash,
            attempt=context.environment.attempt,
            versions={"tensorflow": tf.__version__, "keras": keras.__version__, "python": platform.python_version()},
            pass_batches=pass_batches,
        )


def text(job: JobFile) -> str:
    """Return the text of job.json."""
    return json_text(_to_json(job))


def read(folder: Folder) -> JobFile | None:
    """Return the job.json of a folder; None where there is none, or one that lacks a key."""
    found = read_json(folder, NAME)
    try:
        return None if found is None else _from_json(found)
    except KeyError:
        return None


def counted_batches(context: TrainContext, training: TrainingId) -> int | None:
    """Return the batches of a pass over the data of a training, as an earlier start of this job has counted them."""
    directory, job = training.below(context.environment.checkpoint.directory), context.environment.job_hash
    before = read(open_folder(directory)) if directory and job else None
    return before.pass_batches if before is not None and before.job == job else None


def check(before: JobFile, now: JobFile, directory: str) -> None:
    """Refuse to continue from the checkpoints of `before` if that would silently train something else.

    The number of replicas may change, and so may strategies within a family.

    Raises:
        PreflightFailed: names the difference and what to do.
    """
    for what, old, new in _differences(before, now):
        raise PreflightFailed(
            f"the checkpoint in {directory} was made with {what} {old} and this job has {new}; "
            f"set it back to {old}, or use another checkpoint directory"
        )


def _to_json(job: JobFile) -> dict[str, object]:
    return {
        "step": job.step,
        "epoch": job.epoch,
        "examples": job.examples,
        "strategy": job.strategy,
        "replicas": job.replicas,
        "workers": job.workers,
        "seed": job.seed,
        "accumulate": job.accumulate,
        "global_batch": job.global_batch,
        "global_batch_given": job.global_batch_given,
        "job": job.job,
        "attempt": job.attempt,
        "versions": dict(job.versions),
        **({} if job.pass_batches is None else {"pass_batches": job.pass_batches}),
    }


def _from_json(found: Mapping[str, Any]) -> JobFile:
    return JobFile(
        step=found["step"],
        epoch=found["epoch"],
        examples=found["examples"],
        strategy=found["strategy"],
        replicas=found["replicas"],
        workers=found["workers"],
        seed=found["seed"],
        accumulate=found["accumulate"],
        global_batch=found["global_batch"],
        global_batch_given=found["global_batch_given"],
        job=job_of(found),
        attempt=found["attempt"],
        versions=found["versions"],
        pass_batches=found.get("pass_batches"),
    )


def _differences(before: JobFile, now: JobFile) -> list[tuple[str, str | int, str | int]]:
    """Yield what must not change and did: its name, its value then and its value now."""
    found: list[tuple[str, str | int, str | int]] = []
    if FAMILIES.get(before.strategy) != FAMILIES.get(now.strategy):
        found.append(("strategy", before.strategy, now.strategy))
    if before.seed != now.seed:
        found.append(("seed", before.seed, now.seed))
    old, new = before.global_batch_given, now.global_batch_given
    if old is not None and new is not None and old != new:
        found.append(("batch_size", old, new))
    return found
