"""When to save, and what: the checkpoints of one training."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dtj_trainer.checkpoint import content, job_file
from dtj_trainer.checkpoint.checkpointer import Checkpoints
from dtj_trainer.checkpoint.content import TrainingPosition
from dtj_trainer.checkpoint.job_file import JobFile
from dtj_trainer.checkpoint.owner_file import Done, Owner
from dtj_trainer.context import TrainContext
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.ipc.reporter import ENDING_SAVE_SECONDS
from dtj_trainer.storage.open import open_folder

OURS = frozenset({"step", "state"})
"""Names in a checkpoint that are taken; an object of such a name is saved as `own_<name>`."""


class Keeper:
    """Saves and restores `objects` and the position; without a directory it does neither."""

    def __init__(self, context: TrainContext, objects: Mapping[str, Any], identity: JobFile) -> None:
        settings = context.environment.checkpoint
        self.directory = settings.directory
        self._context = context
        self._settings = settings
        self._objects = {f"own_{name}" if name in OURS else name: each for name, each in objects.items()}
        self._identity = identity
        self._saved_at = time.monotonic()
        self._begun: int | None = None
        """The newest step whose save has begun, or that was restored."""
        self.owner: Owner | None = None
        if self.directory:
            if context.is_chief:
                self.owner = Owner(open_folder(self.directory), context.environment.uid, context.environment.attempt)
            self._checkpoints = Checkpoints(self.directory, settings.keep, self.owner)
            self._held = _Held()

    def resume(self) -> TrainingPosition | None:
        """Claim the directory and restore the newest checkpoint, the same one in every process.

        Raises:
            Fenced: a newer attempt writes here.
            PreflightFailed: the checkpoint is of another model or another kind of job.
        """
        if not self.directory:
            return None
        if self.owner is not None:
            self._checkpoints.claim()
        before = job_file.read(self._checkpoints.place)
        name = self._context.coordination.broadcast(self._checkpoints.latest())
        if not name:
            return None
        if before is not None:
            job_file.check(before, self._identity, self.directory)
        self._checkpoints.await_visible(name)
        self._checkpoints.restore(name, {**self._objects, **self._held.objects()})
        self._saved_at = time.monotonic()
        self._begun = self._checkpoints.saved_step
        self._context.reporter.checkpoint_restored(self._held.place.step)
        return self._held.place

    def kept(self) -> list[tuple[int, str]]:
        """Step and name of every checkpoint there is now, the oldest first."""
        return self._checkpoints.kept()

    def has(self, step: int) -> bool:
        """Whether the checkpoint of `step` is there."""
        return any(found == step for found, _ in self.kept())

    def restore(self, name: str) -> bool:
        """Restore one checkpoint; False if its writer has removed it meanwhile.

        Raises:
            PreflightFailed: it is of another model.
        """
        try:
            self._checkpoints.restore(name, {**self._objects, **self._held.objects()})
        except PreflightFailed:
            if name in (still for _, still in self.kept()):
                raise
            return False
        return True

    def due(self, step: int, *, asked: bool) -> bool:
        """Whether to save after `step`; all processes get the same answer."""
        if not self.directory:
            return False
        every = self._settings.every_steps
        return asked or bool(every and step % every == 0)

    def next_step(self, step: int) -> int | None:
        """The next step after `step` that has to be saved; None when time decides."""
        every = self._settings.every_steps
        return (step // every + 1) * every if every and self.directory else None

    def time_is_up(self) -> bool:
        """Whether the chief has to ask for a save because of time."""
        if not self.directory or self._settings.every_steps or not self._settings.every_seconds:
            return False
        return time.monotonic() - self._saved_at >= self._settings.every_seconds

    @property
    def metrics(self) -> Mapping[str, float]:
        """Those of the last epoch before the checkpoint that was restored."""
        return self._held.metrics if self.directory else {}

    def save(self, place: TrainingPosition, epoch: int, metrics: Mapping[str, float]) -> None:
        """Begin to save, on the chief; the others take part where their variables do, and come back after it, so that
        what it waits for (a save that still goes on) is a save to them too, and not a step that does not come.

        Raises:
            Fenced: a newer attempt has taken over.
            UserError: the disk is full.
        """
        if not self.directory or self._begun == place.step:
            return
        started = self._saved_at = time.monotonic()
        self._begun = place.step
        if self.owner is not None or _saved_by_all(self._objects):
            self._take(place, epoch, metrics, started)
        self._context.coordination.wait_for_chief(f"saving/{place.step}")

    def _take(self, place: TrainingPosition, epoch: int, metrics: Mapping[str, float], started: float) -> None:
        self._held.place, self._held.metrics = place, metrics
        notes = {job_file.NAME: job_file.text(self._note(place, epoch))}
        objects = {**self._objects, **self._held.objects()}

        def complete() -> None:
            self._context.reporter.checkpoint_saved(place.step, time.monotonic() - started)

        self._checkpoints.wait()
        if self.owner is not None:
            self._context.reporter.checkpoint_started(place.step)
        self._checkpoints.save(place.step, objects, notes, complete)

    def linger(self) -> None:
        """Let a save that has begun be complete, for as long as the supervisor leaves it to this process."""
        if self.directory:
            self._checkpoints.linger(ENDING_SAVE_SECONDS)

    def look(self) -> None:
        """Raise what went wrong in the last save, if it has ended."""
        if self.directory:
            self._checkpoints.look()

    def wait(self) -> None:
        """Return when the last save is complete; raises what went wrong in it."""
        if self.directory:
            self._checkpoints.wait()

    def finish(self, place: TrainingPosition, metrics: Mapping[str, float]) -> None:
        """Leave the note that the job is done."""
        if self.directory:
            self._checkpoints.finish(Done(place.step, metrics))

    def _note(self, place: TrainingPosition, epoch: int) -> JobFile:
        return replace(self._identity, step=place.step, epoch=epoch, examples=place.data.examples)


class _Held:
    """The step and the other state of a checkpoint, as objects that TensorFlow saves.

    Made once, by all processes: a new variable is a collective under MultiWorkerMirrored.
    """

    def __init__(self) -> None:
        import tensorflow as tf

        self._place = TrainingPosition()
        self.metrics: Mapping[str, float] = {}
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")

    @property
    def place(self) -> TrainingPosition:
        return self._place

    @place.setter
    def place(self, place: TrainingPosition) -> None:
        self._place = place
        self._step.assign(place.step)

    def objects(self) -> dict[str, Any]:
        import tensorflow as tf

        held = self

        class State(tf.train.experimental.PythonState):
            def serialize(self) -> str:
                return content.text(held.place, held.metrics)

            def deserialize(self, string_value: Any) -> None:
                text = string_value.decode() if isinstance(string_value, bytes) else str(string_value)
                held.place, held.metrics = content.restore(text)

        return {"step": self._step, "state": State()}


def _saved_by_all(objects: Mapping[str, Any]) -> bool:
    """Whether reading a variable for a save is a collective, so that every process has to take part.

    Asked anew at each save, as programs may add variables. The chief goes the same way meanwhile, and is waited for.
    """
    import tensorflow as tf

    on_read = tf.VariableSynchronization.ON_READ
    checkpoint = tf.train.Checkpoint(**objects)  # held: a view does not
    found = tf.train.TrackableView(checkpoint).descendants()
    raw = [each if isinstance(each, tf.Variable) else getattr(each, "value", None) for each in found]
    return any(getattr(variable, "synchronization", None) == on_read for variable in raw)
