"""The two short notes beside the checkpoints: who may write (owner.json), and that all is done (done.json)."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dtj_trainer.errors import Fenced
from dtj_trainer.state.files import read_json, write_json

OWNER = "owner.json"
DONE = "done.json"


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a job: its last step, and its metrics."""

    step: int
    metrics: Mapping[str, float] = field(default_factory=dict)


def finished(directory: str, uid: str) -> Done | None:
    """How this very job ended, if it has; another job's end is not ours."""
    note = read_json(Path(directory) / DONE) if directory else None
    if note is None or note.get("uid", "") != uid:
        return None
    metrics = note.get("metrics")
    return Done(int(note.get("step") or 0), metrics if isinstance(metrics, dict) else {})


def finish(directory: str, uid: str, done: Done) -> None:
    """Leave the note that the job is done."""
    metrics = dict(done.metrics)
    write_json(Path(directory) / DONE, {"uid": uid, "step": done.step, "metrics": metrics, "time": time.time()})


@dataclass(frozen=True, slots=True)
class Owner:
    """The claim of one attempt of one job on a checkpoint directory.

    A process left alive on a lost node holds a smaller attempt than its successor and finds that out before it
    commits anything.
    """

    directory: Path
    uid: str
    attempt: int

    def claim(self) -> None:
        """Become the writer.

        Raises:
            Fenced: a newer attempt of this job is the writer already.
        """
        note = read_json(self.directory / OWNER)
        if note is not None and note.get("uid", "") == self.uid:
            self._refuse(int(note.get("attempt") or 0))
        write_json(self.directory / OWNER, {"uid": self.uid, "attempt": self.attempt, "claimed": time.time()})

    def check(self) -> None:
        """Go on only while the claim holds; call it before every commit.

        Raises:
            Fenced: a newer attempt, or another job, has claimed the directory since.
        """
        note = read_json(self.directory / OWNER)
        if note is None:
            return
        if note.get("uid", "") != self.uid:
            raise Fenced(
                f"{self.directory} is now written by another job ({note.get('uid') or 'without UID'}); "
                "give each job a checkpoint directory of its own"
            )
        self._refuse(int(note.get("attempt") or 0))

    def _refuse(self, attempt: int) -> None:
        if attempt > self.attempt:
            raise Fenced(f"attempt {attempt} of this job owns {self.directory}; attempt {self.attempt} writes no more")
