"""dtj.session: everything prepared, the loop left to the user."""

import math
import operator
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from dtj_trainer.checkpoint import job_file
from dtj_trainer.checkpoint.checkpointer import Checkpoints
from dtj_trainer.checkpoint.identity import identity
from dtj_trainer.checkpoint.owner_file import Done, Owner
from dtj_trainer.context import TrainContext
from dtj_trainer.data.sharding import BatchSize
from dtj_trainer.errors import Preempted, PreemptedUnsaved, UserError
from dtj_trainer.initialization import init, restore_garbage_collection
from dtj_trainer.ipc.messages import StepsDone
from dtj_trainer.ipc.takeover import process_takeover
from dtj_trainer.process.exit import exit_on_failure
from dtj_trainer.reporting.event_files import Events
from dtj_trainer.reporting.profiler import Profiler
from dtj_trainer.storage.open import open_folder
from dtj_trainer.training.finite import not_finite
from dtj_trainer.training.scheduled_stops import LEAVE, SAVE, ScheduledStops


class Job:
    """What a program needs to train by hand under the strategy of its job."""

    def __init__(self, context: TrainContext) -> None:
        self._context = context
        self._events = Events(context.environment.checkpoint.logs if context.is_chief else "")
        environment = context.environment
        self._profiler = Profiler(
            environment.checkpoint.logs, environment.profile_steps, context.reporter, context.commands
        )
        self._reported = (0, time.monotonic())
        self._first: tuple[int, float] | None = None
        self._metrics: dict[str, float] = {}
        self._seconds_per_step = 0.0
        self._scheduled_stops = ScheduledStops(context)
        self.strategy = context.strategy
        self.role = context.role
        self.index = context.index
        self.is_chief = context.is_chief
        self.checkpoints = SharedCheckpoints(context)

    @property
    def input_context(self) -> Any:
        """A tf.distribute.InputContext: this process among the input pipelines."""
        return self._context.sharding.input_context()

    def report(self, *, step: int, loss: Any = None, **metrics: Any) -> None:
        """Tell how far the training is, after each step or each so many, the same ones in every process.

        Where one process was asked to save or to leave, all of them save at the same step, a second later, what they
        gave to `checkpoints.restore` or `checkpoints.save`, and leave if that was asked.

        Raises:
            UserError: the loss is not finite.
            Preempted: asked to leave; the state of this step is saved.
            PreemptedUnsaved: asked to leave; there is nothing to save, or nowhere to.
        """
        restore_garbage_collection()
        step = _whole(step)
        self.checkpoints.look()
        before, since = self._reported
        before = max(before, self.checkpoints.restored_step)
        now = time.monotonic()
        self._reported = (step, now)
        first, begun = self._first = self._first or (step, now)
        if step > before >= first:
            # Whichever is more: what is agreed for too near a step is agreed upon again, for too far a one it is late.
            self._seconds_per_step = max((now - since) / (step - before), (now - begun) / (step - first))
        numbers = {name: float(value) for name, value in metrics.items()}
        shown = None if loss is None else float(loss)
        self._metrics = numbers if shown is None else {"loss": shown, **numbers}
        done = StepsDone(step, max(0, step - before), now - since, loss=shown, metrics=numbers)
        self._context.reporter.steps_done(done)
        self._events.write(step, {"loss": shown, **numbers})
        if shown is not None and not math.isfinite(shown):
            self._events.close()
            raise not_finite(shown, step)
        self._profiler.after(step)
        self._profiler.before(step, 1)
        due = self._scheduled_stops.due(step, self._seconds_per_step)
        if due == LEAVE:
            self._leave(step)
        if due == SAVE:
            self._context.commands.checkpoint_wanted.clear()
            self.checkpoints.save_again(step)

    def finish(self) -> None:
        """The program has trained to its end: the last reported step and its numbers are the job's."""
        self._context.reporter.phase("finish" if self.is_chief else "save")
        self._scheduled_stops.close()
        self._profiler.close()
        self._events.close()
        self.checkpoints.finish(self._reported[0], self._metrics)

    def _leave(self, step: int) -> None:
        self._context.reporter.phase("save")
        self._profiler.close()
        saves = self.checkpoints.save_again(step)
        self.checkpoints.wait()
        self._events.close()
        if not saves:
            raise PreemptedUnsaved(f"asked to leave at step {step}, with nothing saved")
        self._context.coordination.barrier()
        raise Preempted(f"asked to leave; saved step {step}")


class SharedCheckpoints:
    """Checkpoints in the job's directory: the chief commits, the others take part where they have to."""

    def __init__(self, context: TrainContext) -> None:
        settings = context.environment.checkpoint
        self._context = context
        self._identity = identity(context, BatchSize(None, None), context.seed or 0, 1)
        self._owner: Owner | None = None
        self._enabled = bool(settings.directory)
        self._objects: dict[str, Any] = {}
        self._begun: int | None = None
        self.restored_step = 0
        """The step that was restored; 0 where nothing was."""
        if not self._enabled:
            return
        if context.is_chief:
            self._owner = Owner(open_folder(settings.directory), context.environment.uid, context.environment.attempt)
        self._files = Checkpoints(settings.directory, settings.keep, self._owner)
        if self._owner is not None:
            self._files.claim()

    @property
    def saved_step(self) -> int | None:
        """The newest step saved or restored by this process; a save that still goes on does not count."""
        return self._files.saved_step if self._enabled else None

    def restore(self, **objects: Any) -> int | None:
        """Restore the newest checkpoint into trackables, on every process; its step, or None without one.

        Raises:
            PreflightFailed: the checkpoint is of another model or another kind of job.
        """
        self._objects = objects
        if not self._enabled:
            return None
        before = job_file.read(self._files.place)
        name = self._context.coordination.broadcast(self._files.latest())
        if not name:
            return None
        if before is not None:
            job_file.check(before, self._identity, self._files.place.name)
        self._files.await_visible(name)
        self._files.restore(name, objects)
        self._begun = self._files.saved_step
        if self._begun is not None:
            self.restored_step = self._begun
            self._context.reporter.checkpoint_restored(self._begun)
        return self._begun

    def save(self, step: int, **objects: Any) -> None:
        """Begin to save trackables as the checkpoint of `step`; every process has to call it.

        The values are those of now; what takes time goes on beside the program, and what goes wrong there is raised by
        the next `save` or `report`, or at the end of the session.
        """
        self._objects, step = objects, _whole(step)
        if not self._enabled:
            return
        reporter, started = self._context.reporter, time.monotonic()
        reporter.phase("save")
        self._begun = step
        notes = {job_file.NAME: job_file.text(replace(self._identity, step=step))}
        self._files.save(step, objects, notes, lambda: reporter.checkpoint_saved(step, time.monotonic() - started))
        self._context.coordination.wait_for_chief(f"saving/{step}")
        reporter.phase("train")

    def save_again(self, step: int) -> bool:
        """Begin to save what was last restored or saved, as of `step`; False where that is not possible."""
        if not self._enabled or not self._objects:
            return False
        if self._begun != step:
            self.save(step, **self._objects)
        return True

    def wait(self) -> None:
        """Return when the last save is complete; raises what went wrong in it."""
        if self._enabled:
            self._files.wait()

    def look(self) -> None:
        """Raise what went wrong in a save."""
        if self._enabled:
            self._files.look()

    def finish(self, step: int, metrics: Mapping[str, float]) -> None:
        """Wait for the last save, and leave the note that the job is done."""
        self.wait()
        if self._enabled:
            self._files.finish(Done(max(step, self._begun or 0), metrics))


@contextmanager
def session() -> Iterator[Job]:
    """Everything prepared: TF_CONFIG read, peers up, strategy chosen, built and made the default.

    At its end the job is done: started again, it ends at once.
    """
    context = init()
    with exit_on_failure(context):
        process_takeover().wait()
        job = Job(context)
        yield job
        job.finish()
        context.coordination.barrier()


def _whole(step: Any) -> int:
    """A step as a Python number, whatever it was counted in: Python, NumPy, a tensor, a variable.

    Raises:
        UserError: it is no whole number.
    """
    try:
        return operator.index(step.numpy() if hasattr(step, "numpy") else step)
    except TypeError:
        raise UserError(f"{step!r} is no step; give report and save the number of steps made so far") from None
