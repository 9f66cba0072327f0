"""The CheckpointManager: decides when to save; saves and restores one training."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dtj_trainer.checkpoint import job_file, trainings
from dtj_trainer.checkpoint.broken import BrokenCheckpoint
from dtj_trainer.checkpoint.callback_state import CallbackState
from dtj_trainer.checkpoint.checkpointer import Checkpointer
from dtj_trainer.checkpoint.content import CheckpointContent, EpochLogs, TrackableContent, TrainingPosition
from dtj_trainer.checkpoint.job_file import JobFile
from dtj_trainer.checkpoint.owner_file import OwnerFile
from dtj_trainer.checkpoint.random_state import set_random_state
from dtj_trainer.checkpoint.restore import restore_newest
from dtj_trainer.checkpoint.trainings import TrainingId, TrainingRecord
from dtj_trainer.context import TrainContext
from dtj_trainer.errors import PreflightFailed, UserError
from dtj_trainer.ipc.reporter import ENDING_SAVE_SECONDS
from dtj_trainer.storage.open import open_folder

TAKEN_NAMES = frozenset({"step", "state"})
"""Names in a checkpoint that this module uses; an object of such a name is saved as `own_<name>`."""


class CheckpointManager:
    """The checkpoints of one training: `objects` and its position; does nothing without a directory."""

    def __init__(
        self, context: TrainContext, objects: Mapping[str, object], job: JobFile, training: TrainingId
    ) -> None:
        settings = context.environment.checkpoint
        self.training = training
        self.directory = training.below(settings.directory)
        """Where the checkpoints of this training are; empty if they are nowhere."""
        self._context = context
        self._settings = settings
        self._objects = {f"own_{name}" if name in TAKEN_NAMES else name: each for name, each in objects.items()}
        self._job = job
        self._last_save = time.monotonic()
        self._begun_step: int | None = None
        """The newest step whose save has begun, or that was restored."""
        self.callback_states: Callable[[], Sequence[CallbackState]] = tuple
        """Returns what the callbacks remember, for the next save."""
        self.finished = False
        """Whether the restored checkpoint is the last one of this training, by an earlier start of this job."""
        self._owner: OwnerFile | None = None
        if self.directory:
            if context.is_chief:
                self._owner = OwnerFile(
                    open_folder(settings.directory), context.environment.job_hash, context.environment.attempt
                )
            self._checkpointer = Checkpointer(self.directory, settings.keep, self._owner)
            self._trackable = TrackableContent()

    def restore(self) -> TrainingPosition | None:
        """Claim the directory and restore the newest checkpoint, the same one in every process.

        Returns its position; None where there is no checkpoint.

        Raises:
            Fenced: a newer attempt writes here.
            PreflightFailed: the checkpoint is of another model or another kind of job; no checkpoint is whole.
            UserError: an earlier start of the job called other trainings.
        """
        if not self.directory:
            return None
        if self._owner is not None:
            self._checkpointer.claim()
        self._check_order()
        before = job_file.read(self._checkpointer.folder)

        def check() -> None:
            if before is not None:
                job_file.check(before, self._job, self.directory)

        if not restore_newest(self._checkpointer, self._context.coordination, self._all_objects(), check):
            return None
        self._last_save = time.monotonic()
        self._begun_step = self._checkpointer.saved_step
        self.finished = self._trackable.content.finished and before is not None and before.job == self._job.job
        position = self._trackable.content.position
        self._context.reporter.checkpoint_restored(position.step)
        return position

    def restore_step(self, step: int) -> bool:
        """Restore the checkpoint of `step`; returns False if its writer has removed it meanwhile.

        Raises:
            BrokenCheckpoint: it cannot be read as a whole.
            PreflightFailed: it is of another model.
        """
        try:
            self._checkpointer.restore(f"ckpt-{step}", self._all_objects())
        except (BrokenCheckpoint, PreflightFailed):
            if step in self.all_steps():
                raise
            return False
        return True

    @property
    def logs(self) -> str:
        """The log directory of this training; empty if there is none."""
        return self.training.below(self._settings.logs)

    def all_steps(self) -> list[int]:
        """Return the steps of all checkpoints that exist now, the oldest first."""
        return self._checkpointer.all_steps()

    def should_save(self, step: int, *, requested: bool) -> bool:
        """Return whether to save after `step`; all processes get the same answer."""
        if not self.directory:
            return False
        every = self._settings.every_steps
        return requested or bool(every and step % every == 0)

    def next_save_step(self, step: int) -> int | None:
        """Return the first step after `step` that has to be saved; None when time decides."""
        every = self._settings.every_steps
        return (step // every + 1) * every if every and self.directory else None

    def save_is_overdue(self) -> bool:
        """Return whether the last save is so long ago that the chief has to request one."""
        if not self.directory or self._settings.every_steps or not self._settings.every_seconds:
            return False
        return time.monotonic() - self._last_save >= self._settings.every_seconds

    @property
    def metrics(self) -> Mapping[str, float]:
        """The metrics of the last epoch before the restored checkpoint."""
        return self._trackable.content.metrics if self.directory else {}

    @property
    def history(self) -> Sequence[EpochLogs]:
        """The epochs that had ended at the restored checkpoint."""
        return self._trackable.content.history if self.directory else ()

    @property
    def restored_callbacks(self) -> Sequence[CallbackState]:
        """What the callbacks remembered at the restored checkpoint."""
        return self._trackable.content.callbacks if self.directory else ()

    def restore_random_state(self) -> None:
        """Set the random states of the restored checkpoint again, after what the beginning of a training has drawn."""
        if self.directory and self._trackable.content.random:
            set_random_state(self._trackable.content.random)

    def save(
        self,
        position: TrainingPosition,
        epoch: int,
        metrics: Mapping[str, float],
        history: Sequence[EpochLogs] = (),
        *,
        finished: bool = False,
    ) -> None:
        """Begin to save. Every process calls it; the chief writes, the others take part where reading is a collective.

        In the other processes it returns after the chief: the chief may wait for an earlier save, and all processes
        have to count that time as a save, not as a step that takes too long.

        Raises:
            Fenced: a newer attempt has taken over.
            UserError: the disk is full.
        """
        if not self.directory or (self._begun_step == position.step and not finished):
            return
        self._last_save = time.monotonic()
        self._begun_step = position.step
        if self._owner is not None or _reading_is_collective(self._objects):
            callbacks = () if self._owner is None else tuple(self.callback_states())
            content = CheckpointContent(position, metrics, tuple(history), finished=finished, callbacks=callbacks)
            self._begin_save(content, epoch)
        self._context.coordination.wait_for_chief(f"saving/{self.training.number}/{position.step}/{finished}")

    def wait_before_exit(self) -> None:
        """Wait for a started save, at most as long as the supervisor lets a process without its cluster run."""
        if self.directory:
            self._checkpointer.wait_at_most(ENDING_SAVE_SECONDS)

    def check_for_errors(self) -> None:
        """Raise the error of the last save, if that has ended."""
        if self.directory:
            self._checkpointer.check_for_errors()

    def wait_until_finished(self) -> None:
        """Return when the last save is complete; raises its error."""
        if self.directory:
            self._checkpointer.wait_until_finished()

    def recorded(self) -> TrainingRecord | None:
        """Return what trainings.json says about this training of this job."""
        folder = open_folder(self._settings.directory)
        found = [each for each in trainings.read(folder, self._job.job) if each.number == self.training.number]
        return found[0] if found else None

    def record_finished(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record in trainings.json that this training has finished."""
        if self._owner is not None:
            with self._checkpointer.explain_errors():
                record = TrainingRecord(self.training.number, self.training.name, step, metrics)
                trainings.write(self._owner, record)

    def _check_order(self) -> None:
        """Compare this training with those that an earlier start recorded; record it if it is new."""
        refusal = ""
        if self._owner is not None:
            records = trainings.read(self._owner.folder, self._job.job)
            refusal = trainings.refusal(records, self.training, self._owner.folder.name)
            if not refusal and all(record.number != self.training.number for record in records):
                with self._checkpointer.explain_errors():
                    trainings.write(self._owner, TrainingRecord(self.training.number, self.training.name))
        if refusal := self._context.coordination.broadcast(refusal):
            self._context.coordination.barrier()  # the chief holds the store: the others have to have read it
            raise UserError(refusal)

    def _begin_save(self, content: CheckpointContent, epoch: int) -> None:
        started, position = self._last_save, content.position
        self._trackable.content = content
        job = replace(self._job, step=position.step, epoch=epoch, examples=position.data.examples)

        def report() -> None:
            self._context.reporter.checkpoint_saved(position.step, time.monotonic() - started)

        self._checkpointer.wait_until_finished()
        if self._owner is not None:
            self._context.reporter.checkpoint_started(position.step)
        self._checkpointer.save(position.step, self._all_objects(), {job_file.NAME: job_file.text(job)}, report)

    def _all_objects(self) -> dict[str, object]:
        return {**self._objects, **self._trackable.objects()}


def _reading_is_collective(objects: Mapping[str, object]) -> bool:
    """Return whether reading a variable for a save is a collective, so that every process has to take part.

    Checked at each save, because programs may add variables.
    """
    import tensorflow as tf

    on_read = tf.VariableSynchronization.ON_READ
    checkpoint = tf.train.Checkpoint(**objects)  # kept alive here: a view does not
    found = tf.train.TrackableView(checkpoint).descendants()
    raw = [each if isinstance(each, tf.Variable) else getattr(each, "value", None) for each in found]
    return any(getattr(variable, "synchronization", None) == on_read for variable in raw)
