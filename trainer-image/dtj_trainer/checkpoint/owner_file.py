"""owner.json: which attempt of which job may write checkpoints into a directory."""

import time
from dataclasses import dataclass

from dtj_trainer.contract import job_of
from dtj_trainer.errors import Fenced
from dtj_trainer.storage.folder import Folder, TemporaryFolder, read_json, write_json

NAME = "owner.json"


@dataclass(frozen=True, slots=True)
class OwnerFile:
    """The claim of one attempt of one job on a checkpoint directory.

    A process still running on a lost node has a smaller attempt number than its successor, and sees that before it
    commits anything.
    """

    folder: Folder
    job: str
    """The job's hash."""
    attempt: int

    def claim(self) -> None:
        """Become the writer, and remove the temporary files of earlier writers.

        Raises:
            Fenced: a newer attempt of this job is the writer already.
        """
        found = read_json(self.folder, NAME)
        if found is not None and job_of(found) == self.job:
            self._refuse_older(_attempt(found))
        self._write()
        self.folder.delete_temporary()

    def check(self) -> int | None:
        """Raise if the claim is lost; returns the attempt that owns the directory, None where nobody does.

        Raises:
            Fenced: a newer attempt, or another job, has claimed the directory since.
        """
        found = read_json(self.folder, NAME)
        if found is None:
            return None
        if job_of(found) != self.job:
            raise Fenced(
                f"{self.folder.name} is now written by another job ({job_of(found) or 'without UID'}); "
                "give each job a checkpoint directory of its own"
            )
        attempt = _attempt(found)
        self._refuse_older(attempt)
        return attempt

    def confirm(self, temporary: TemporaryFolder) -> None:
        """Raise unless the claim holds; call it before every commit, when all files are in the temporary folder.

        An older attempt may have read owner.json before this one claimed, and have written its claim after it: then
        this one claims again, deletes what that one has not committed yet, and looks again. This ends: an attempt
        claims once, and stops where it finds a newer one.

        Raises:
            Fenced: a newer attempt, or another job, has claimed the directory since.
        """
        while self.check() != self.attempt:
            self._write()
            temporary.delete_others()

    def _write(self) -> None:
        write_json(self.folder, NAME, {"job": self.job, "attempt": self.attempt, "claimed": time.time()})

    def _refuse_older(self, attempt: int) -> None:
        """Raise where the writer is a newer attempt than this one."""
        if attempt > self.attempt:
            raise Fenced(
                f"attempt {attempt} of this job owns {self.folder.name}; attempt {self.attempt} writes no more"
            )


def _attempt(found: dict[str, object]) -> int:
    """Return the attempt in owner.json; 0 where somebody has written none."""
    attempt = found.get("attempt")
    return attempt if isinstance(attempt, int) else 0
