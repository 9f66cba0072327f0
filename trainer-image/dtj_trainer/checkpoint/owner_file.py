"""The two short notes beside the checkpoints: who may write (owner.json), and that all is done (done.json)."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from dtj_trainer.errors import Fenced
from dtj_trainer.storage.folder import Folder, json_text, read_json, write_json
from dtj_trainer.storage.open import open_folder

OWNER = "owner.json"
DONE = "done.json"


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a job: its last step, and its metrics."""

    step: int
    metrics: Mapping[str, float] = field(default_factory=dict)


def finished(directory: str, uid: str) -> Done | None:
    """How this very job ended, if it has; another job's end is not ours."""
    note = read_json(open_folder(directory), DONE) if directory else None
    if note is None or note.get("uid", "") != uid:
        return None
    metrics = note.get("metrics")
    return Done(int(note.get("step") or 0), metrics if isinstance(metrics, dict) else {})


@dataclass(frozen=True, slots=True)
class Owner:
    """The claim of one attempt of one job on a checkpoint directory.

    A process left alive on a lost node holds a smaller attempt than its successor and finds that out before it
    commits anything.
    """

    place: Folder
    uid: str
    attempt: int

    def claim(self) -> None:
        """Become the writer, and delete what writers before have left in temporary folders.

        Raises:
            Fenced: a newer attempt of this job is the writer already.
        """
        note = read_json(self.place, OWNER)
        if note is not None and note.get("uid", "") == self.uid:
            self._refuse(int(note.get("attempt") or 0))
        write_json(self.place, OWNER, {"uid": self.uid, "attempt": self.attempt, "claimed": time.time()})
        self.place.delete_temporary()

    def check(self) -> None:
        """Go on only while the claim holds; call it before every commit, when all of it is uploaded.

        Raises:
            Fenced: a newer attempt, or another job, has claimed the directory since.
        """
        note = read_json(self.place, OWNER)
        if note is None:
            return
        if note.get("uid", "") != self.uid:
            raise Fenced(
                f"{self.place.name} is now written by another job ({note.get('uid') or 'without UID'}); "
                "give each job a checkpoint directory of its own"
            )
        self._refuse(int(note.get("attempt") or 0))

    def finish(self, done: Done) -> None:
        """Leave the note that the job is done.

        Raises:
            Fenced: as check.
        """
        note = {"uid": self.uid, "step": done.step, "metrics": dict(done.metrics), "time": time.time()}
        with self.place.temporary(DONE) as temporary:
            (temporary.path / DONE).write_text(json_text(note), encoding="utf-8")
            temporary.upload([DONE])
            self.check()
            temporary.commit([DONE])

    def _refuse(self, attempt: int) -> None:
        if attempt > self.attempt:
            raise Fenced(f"attempt {attempt} of this job owns {self.place.name}; attempt {self.attempt} writes no more")
