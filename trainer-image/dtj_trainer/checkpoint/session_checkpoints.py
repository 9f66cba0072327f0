"""The checkpoints of a custom training loop: `job.checkpoints` of `dtj.session`."""

import operator
import time
from dataclasses import replace
from typing import Any

from dtj_trainer.checkpoint import job_file
from dtj_trainer.checkpoint.checkpointer import Checkpointer
from dtj_trainer.checkpoint.job_file import JobFile
from dtj_trainer.checkpoint.owner_file import OwnerFile
from dtj_trainer.checkpoint.restore import restore_newest
from dtj_trainer.context import TrainContext
from dtj_trainer.data.sharding import BatchSize
from dtj_trainer.errors import UserError
from dtj_trainer.storage.open import open_folder


class SessionCheckpoints:
    """The checkpoints of a session's trackables; the chief writes, the others take part if reading is a collective."""

    def __init__(self, context: TrainContext) -> None:
        settings = context.environment.checkpoint
        self._context = context
        self._job = JobFile.of(context, BatchSize(None, None), context.seed or 0, 1)
        self._enabled = bool(settings.directory)
        self._objects: dict[str, object] = {}
        self._begun_step: int | None = None
        """The newest step whose save has begun, or that was restored."""
        self.restored_step = 0
        """The step that was restored; 0 where nothing was."""
        if not self._enabled:
            return
        owner = None
        if context.is_chief:
            owner = OwnerFile(
                open_folder(settings.directory), context.environment.job_hash, context.environment.attempt
            )
        self._checkpointer = Checkpointer(settings.directory, settings.keep, owner)
        if owner is not None:
            self._checkpointer.claim()

    @property
    def saved_step(self) -> int | None:
        """The newest step saved or restored by this process; a save that is not complete yet does not count."""
        return self._checkpointer.saved_step if self._enabled else None

    def restore(self, **objects: object) -> int | None:
        """Restore the newest checkpoint into trackables, on every process; returns its step, or None without one.

        Raises:
            PreflightFailed: the checkpoint is of another model or another kind of job; no checkpoint is whole.
        """
        self._objects = objects
        if not self._enabled:
            return None
        before = job_file.read(self._checkpointer.folder)

        def check() -> None:
            if before is not None:
                job_file.check(before, self._job, self._checkpointer.folder.name)

        if not restore_newest(self._checkpointer, self._context.coordination, objects, check):
            return None
        self._begun_step = self._checkpointer.saved_step
        if self._begun_step is not None:
            self.restored_step = self._begun_step
            self._context.reporter.checkpoint_restored(self._begun_step)
        return self._begun_step

    def save(self, step: int, **objects: object) -> None:
        """Begin to save trackables as the checkpoint of `step`; every process has to call it.

        The current values are copied, and written while the program continues. A write error is raised by the next
        `save` or `report`, or at the end of the session.
        """
        self._objects, step = objects, whole_step(step)
        if not self._enabled:
            return
        reporter, started = self._context.reporter, time.monotonic()
        reporter.phase("save")
        self._begun_step = step
        files = {job_file.NAME: job_file.text(replace(self._job, step=step))}
        self._checkpointer.save(
            step, objects, files, lambda: reporter.checkpoint_saved(step, time.monotonic() - started)
        )
        self._context.coordination.wait_for_chief(f"saving/{step}")
        reporter.phase("train")

    def save_again(self, step: int) -> bool:
        """Begin to save the trackables of the last restore or save as `step`; returns False if there are none."""
        if not self._enabled or not self._objects:
            return False
        if self._begun_step != step:
            self.save(step, **self._objects)
        return True

    def wait_until_finished(self) -> None:
        """Return when the last save is complete; raises its error."""
        if self._enabled:
            self._checkpointer.wait_until_finished()

    def check_for_errors(self) -> None:
        """Raise the error of the last save, if that has ended."""
        if self._enabled:
            self._checkpointer.check_for_errors()


def whole_step(step: Any) -> int:
    """Return a step as a Python int, from a Python or NumPy number, a tensor or a variable.

    Raises:
        UserError: it is not an integer.
    """
    try:
        return operator.index(step.numpy() if hasattr(step, "numpy") else step)
    except TypeError:
        raise UserError(f"{step!r} is no step; give report and save the number of steps made so far") from None
