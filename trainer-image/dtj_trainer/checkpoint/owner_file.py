"""owner.json: which attempt of which job may write checkpoints into a directory."""

import time
from dataclasses import dataclass

from dtj_trainer.errors import Fenced
from dtj_trainer.storage.folder import Folder, read_json, write_json

NAME = "owner.json"


@dataclass(frozen=True, slots=True)
class OwnerFile:
    """The claim of one attempt of one job on a checkpoint directory.

    A process still running on a lost node has a smaller attempt number than its successor, and sees that before it
    commits anything.
    """

    folder: Folder
    uid: str
    attempt: int

    def claim(self) -> None:
        """Become the writer, and remove the temporary files of earlier writers.

        Raises:
            Fenced: a newer attempt of this job is the writer already.
        """
        found = read_json(self.folder, NAME)
        if found is not None and found.get("uid", "") == self.uid:
            self._refuse_older(int(found.get("attempt") or 0))
        write_json(self.folder, NAME, {"uid": self.uid, "attempt": self.attempt, "claimed": time.time()})
        self.folder.delete_temporary()

    def check(self) -> None:
        """Raise unless the claim still holds; call it before every commit, when all its files are written.

        Raises:
            Fenced: a newer attempt, or another job, has claimed the directory since.
        """
        found = read_json(self.folder, NAME)
        if found is None:
            return
        if found.get("uid", "") != self.uid:
            raise Fenced(
                f"{self.folder.name} is now written by another job ({found.get('uid') or 'without UID'}); "
                "give each job a checkpoint directory of its own"
            )
        self._refuse_older(int(found.get("attempt") or 0))

    def _refuse_older(self, attempt: int) -> None:
        """Raise where the writer is a newer attempt than this one."""
        if attempt > self.attempt:
            raise Fenced(
                f"attempt {attempt} of this job owns {self.folder.name}; attempt {self.attempt} writes no more"
            )
