"""job.json: what made the checkpoints of a directory, so that a resume that would go wrong is refused."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from dtj_trainer.errors import PreflightFailed
from dtj_trainer.storage.folder import Folder, json_text, read_json
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
    """`global_batch_size` as it was given; None if the per-replica size was given, or a Dataset."""
    uid: str
    attempt: int
    versions: Mapping[str, str]


def text(job: JobFile) -> str:
    return json_text(asdict(job))


def read(place: Folder) -> JobFile | None:
    told = read_json(place, NAME)
    if told is None:
        return None
    names = [field.name for field in fields(JobFile)]
    return JobFile(**{name: told[name] for name in names}) if all(name in told for name in names) else None


def check(before: JobFile, now: JobFile, directory: str) -> None:
    """Refuse to go on from `before` where that would silently train something else.

    The number of replicas may change, and so may strategies within a family.

    Raises:
        PreflightFailed: naming the difference and the way out.
    """
    for what, old, new in _differences(before, now):
        raise PreflightFailed(
            f"the checkpoint in {directory} was made with {what} {old} and this job has {new}; "
            f"set it back to {old}, or use another checkpoint directory"
        )


def _differences(before: JobFile, now: JobFile) -> list[tuple[str, Any, Any]]:
    old_family, new_family = FAMILIES.get(before.strategy), FAMILIES.get(now.strategy)
    found: list[tuple[str, Any, Any]] = []
    if old_family != new_family:
        found.append(("strategy", before.strategy, now.strategy))
    if before.seed != now.seed:
        found.append(("seed", before.seed, now.seed))
    old, new = before.global_batch_given, now.global_batch_given
    if old is not None and new is not None and old != new:
        found.append(("global_batch_size", old, new))
    return found
