"""done.json: the job has finished; a pod that starts again exits at once."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from dtj_trainer.checkpoint.owner_file import OwnerFile
from dtj_trainer.contract import job_of
from dtj_trainer.storage.folder import json_text, read_json
from dtj_trainer.storage.open import open_folder

NAME = "done.json"


@dataclass(frozen=True, slots=True)
class DoneFile:
    """The contents of done.json: the last step of the job, and its metrics."""

    step: int
    metrics: Mapping[str, float] = field(default_factory=dict)


def read(directory: str, job: str) -> DoneFile | None:
    """Return the done.json of the job with this hash; None if there is none, or that of another job."""
    found = read_json(open_folder(directory), NAME) if directory else None
    if found is None or job_of(found) != job:
        return None
    metrics = found.get("metrics")
    return DoneFile(int(found.get("step") or 0), metrics if isinstance(metrics, dict) else {})


def write(owner: OwnerFile, done: DoneFile) -> None:
    """Write done.json into the owner's directory.

    Raises:
        Fenced: a newer attempt, or another job, has claimed the directory.
    """
    text = json_text({"job": owner.job, "step": done.step, "metrics": dict(done.metrics), "time": time.time()})
    with owner.folder.temporary(NAME) as temporary:
        (temporary.path / NAME).write_text(text, encoding="utf-8")
        temporary.upload([NAME])
        owner.confirm(temporary)
        temporary.commit([NAME])
