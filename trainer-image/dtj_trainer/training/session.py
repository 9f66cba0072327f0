"""dtj.session: a prepared process for a custom training loop."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dtj_trainer.checkpoint.session_checkpoints import SessionCheckpoints, whole_step
from dtj_trainer.context import FinishedTraining, TrainContext
from dtj_trainer.errors import Preempted, PreemptedUnsaved, nonfinite_loss
from dtj_trainer.initialization import init, restore_garbage_collection
from dtj_trainer.ipc.messages import StepsDone
from dtj_trainer.ipc.takeover import process_takeover
from dtj_trainer.process.exit import exit_on_failure
from dtj_trainer.reporting.event_files import EventFileWriter
from dtj_trainer.reporting.profiler import Profiler
from dtj_trainer.training.scheduled_stops import LEAVE, SAVE, ScheduledStops


class Session:
    """A prepared process for a custom training loop: strategy, role, checkpoints, reports."""

    def __init__(self, context: TrainContext) -> None:
        self._context = context
        self._events = EventFileWriter(context.environment.checkpoint.logs if context.is_chief else "")
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
        self.checkpoints = SessionCheckpoints(context)

    @property
    def input_context(self) -> Any:
        """The tf.distribute.InputContext of this process."""
        return self._context.sharding.input_context()

    def report(self, *, step: int, loss: Any = None, **metrics: Any) -> None:
        """Report the progress after each step, or after every n steps, the same steps in every process.

        If one process was asked to save or to exit, all of them save at the same step, about a second later, what
        they gave to `checkpoints.restore` or `checkpoints.save`, and exit if that was asked.

        Raises:
            UserError: the loss is not finite.
            Preempted: the job is preempted; the state of this step is saved.
            PreemptedUnsaved: the job is preempted; there is nothing to save, or no directory.
        """
        restore_garbage_collection()
        step = whole_step(step)
        self.checkpoints.check_for_errors()
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
            raise nonfinite_loss(shown, step)
        self._profiler.after(step)
        self._profiler.before(step, 1)
        due = self._scheduled_stops.due(step, self._seconds_per_step)
        if due == LEAVE:
            with exit_on_failure(self._context):
                self._leave(step)
        if due == SAVE:
            self._context.commands.checkpoint_wanted.clear()
            self.checkpoints.save_again(step)

    def finish(self) -> None:
        """Wait for the last save; the job ends with the last reported step and its metrics."""
        self._context.reporter.phase("finish" if self.is_chief else "save")
        self._scheduled_stops.close()
        self._profiler.close()
        self._events.close()
        self.checkpoints.wait_until_finished()
        step = max(self._reported[0], self.checkpoints.saved_step or 0)
        self._context.finished = FinishedTraining(step, self._metrics)

    def _leave(self, step: int) -> None:
        self._context.reporter.phase("save")
        self._profiler.close()
        saves = self.checkpoints.save_again(step)
        self.checkpoints.wait_until_finished()
        self._events.close()
        if not saves:
            raise PreemptedUnsaved(f"asked to leave at step {step}, with nothing saved")
        self._context.coordination.barrier()
        raise Preempted(f"asked to leave; saved step {step}")


@contextmanager
def session() -> Iterator[Session]:
    """Prepare a custom training loop: read TF_CONFIG, wait for peers, build the strategy and make it the default.

    When the program ends with 0 after the `with` block, the job is finished: a pod that starts again exits at once.
    """
    context = init()
    with exit_on_failure(context):
        process_takeover().wait()
        job = Session(context)
        yield job
        job.finish()
        context.coordination.barrier()
        context.reporter.training_finished(job.checkpoints.saved_step)
