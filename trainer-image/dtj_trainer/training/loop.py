"""The training loop, the same for every strategy and every Trainable.

One call of the step runner makes several steps. What all processes have to agree on (save now, stop now) is voted on
in each call, so they act on it at the same step. No call goes past an epoch's end or a step at which to save.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from dtj_trainer.checkpoint.checkpoint_manager import CheckpointManager
from dtj_trainer.checkpoint.content import EpochLogs, TrainingPosition
from dtj_trainer.context import TrainContext
from dtj_trainer.errors import Preempted, PreemptedUnsaved, nonfinite_loss
from dtj_trainer.initialization import restore_garbage_collection
from dtj_trainer.reporting.profiler import Profiler
from dtj_trainer.reporting.training_log import StepReport, TrainingLog
from dtj_trainer.training.epoch_metrics import EpochMetrics
from dtj_trainer.training.history import history_logs, numbers
from dtj_trainer.training.open_schedule import AnySchedule
from dtj_trainer.training.steps.step_runner import StepResult, StepRunner, StepsPerExecutionTuner, Votes
from dtj_trainer.training.steps.trainable import Trainable

REPORT_SECONDS = 5.0
"""Seconds between two reports of metrics in a training without epochs."""


@dataclass(slots=True)
class Hooks:
    """The callbacks around steps and epochs, all optional."""

    batch_begin: Callable[[int], None] | None = None
    batch_end: Callable[[int, dict[str, Any]], None] | None = None
    epoch_begin: Callable[[int], None] = lambda _: None
    epoch_end: Callable[[int, dict[str, Any]], None] | None = None
    validate: Callable[[], Mapping[str, Any] | None] | None = None
    """Returns None if the process was preempted meanwhile."""
    validation_due: Callable[[int], bool] = lambda _: True
    wants_stop: Callable[[], bool] = lambda: False

    steps_per_call: int = 1
    """Keras' steps_per_execution: batch hooks come every so many steps."""

    @property
    def single_steps(self) -> bool:
        """Whether a callback wants batches, so that a call makes `steps_per_call` steps."""
        return self.batch_begin is not None or self.batch_end is not None


@dataclass(slots=True)
class TrainingLoop:
    """The loop of one training, from its position to the end of its schedule."""

    context: TrainContext
    trainable: Trainable
    runner: StepRunner
    schedule: AnySchedule
    checkpoints: CheckpointManager
    position: TrainingPosition
    history: list[EpochLogs] = field(default_factory=list)
    """The epochs so far, those before a restart too; the loop adds to it."""
    verbose: str | int = "auto"
    hooks: Hooks = field(default_factory=Hooks)

    def run(self) -> tuple[TrainingPosition, dict[str, float]]:
        """Train to the end.

        Raises:
            UserError: the loss is no longer finite.
            Preempted: the job is preempted; all processes have saved and exit together.
        """
        return _Run(self).run()


class _Run:
    """The state of one run of the loop."""

    def __init__(self, loop: TrainingLoop) -> None:
        self.loop = loop
        self.context = loop.context
        self.position = loop.position
        self.tuner = StepsPerExecutionTuner(loop.runner.parallel_steps)
        self.seconds_per_step = 0.0
        self.calls = 0
        self.metrics = dict(loop.checkpoints.metrics)
        self.epoch_logs: dict[str, Any] = dict(self.metrics)
        """The metrics as Keras returns them: some are arrays."""
        self.steps = EpochMetrics(loop.position.metric_sums, loop.position.metric_examples)
        self.reported = time.monotonic()
        logs, schedule, total = loop.checkpoints.logs, loop.schedule, loop.schedule.known_total
        epochs = schedule.last_epoch if schedule.batches else None
        self.log = TrainingLog(self.context, logs, total_steps=total, epochs=epochs, verbose=loop.verbose)
        steps = self.context.environment.profile_steps
        self.profiler = Profiler(logs, steps, self.context.reporter, self.context.commands)
        self.stopped = False

    def run(self) -> tuple[TrainingPosition, dict[str, float]]:
        """Train to the end; returns the last position and the metrics."""
        loop = self.loop
        if self.position.step:
            self.log.resumed(self.position.step)
        try:
            if self.position.epoch_end_pending and loop.schedule.ends_epoch(self.position.step):
                self._resume_epoch(loop.schedule.epoch(self.position.step - 1))
                self._end_epoch()
                self._begin_epoch()
            elif 0 < self.position.step < loop.schedule.total:
                self._resume_epoch(loop.schedule.epoch(self.position.step))
            else:
                self._begin_epoch()
            while not self._finished():
                self._run_steps()
        except Exception:
            loop.checkpoints.wait_before_exit()
            raise
        finally:
            self.profiler.close()
            self.log.close()
        return self.position, self.metrics

    def _run_steps(self) -> None:
        """Make one call of the step runner, and what is due after it: epoch end, report, save, exit."""
        loop, commands = self.loop, self.context.commands
        loop.checkpoints.check_for_errors()
        if self.context.workers == 1 and commands.preempted.is_set():
            self._save_and_exit()
        asked = time.monotonic()
        steps = self._steps()
        waited = time.monotonic() - asked  # for data whose end is not known: its schedule looks ahead
        if loop.hooks.batch_begin is not None:
            loop.hooks.batch_begin(self.position.step)
        self.profiler.before(self.position.step, steps)
        started = time.monotonic()
        result = loop.runner(steps, self._votes(), loop.schedule.batches_of(self.position.step))
        seconds = waited + time.monotonic() - started
        self._advance(steps, seconds, replace(result, data_wait_seconds=result.data_wait_seconds + waited))
        self.profiler.after(self.position.step)
        if loop.hooks.batch_end is not None:
            loop.hooks.batch_end(self.position.step - 1, {**self.steps.means(), **loop.trainable.local_metrics()})
            self.stopped = loop.hooks.wants_stop() if self.context.workers == 1 else result.votes.stop_training > 0
        ends_epoch = self.stopped or loop.schedule.ends_epoch(self.position.step)
        if ends_epoch:
            self._take_metrics()
            self._end_epoch()
            self._begin_epoch()  # before a save: some callbacks undo here what they did at the epoch's end
        elif result.votes.report > 0:
            self._take_metrics()
            self.log.metrics(self.position.step, self._epoch(), self.metrics, self._learning_rate())
        last = self._finished()
        if loop.checkpoints.should_save(self.position.step, requested=result.votes.save > 0) and not last:
            self._save()
        if result.votes.stop > 0 and not last:
            self._save_and_exit()

    def _finished(self) -> bool:
        return self.position.step >= self.loop.schedule.total or self.stopped

    def _begin_epoch(self) -> None:
        if not self._finished():
            self.loop.hooks.epoch_begin(self.loop.schedule.epoch(self.position.step))

    def _resume_epoch(self, epoch: int) -> None:
        """Call `on_epoch_begin` for the epoch of the checkpoint, and keep its learning rate."""
        with self.loop.trainable.keep_learning_rate():
            self.loop.hooks.epoch_begin(epoch)

    def _steps(self) -> int:
        step, hooks = self.position.step, self.loop.hooks
        schedule = self.loop.schedule
        ends = [schedule.next_end(step), self.loop.checkpoints.next_save_step(step)]
        most = hooks.steps_per_call if hooks.single_steps else self.tuner.count
        most = 1 if self.loop.trainable.one_step_per_call else most
        steps = max(1, min(most, *(end - step for end in ends if end is not None)))
        if steps > 1 and schedule.batches_of(step + steps - 1) != schedule.batches_of(step):
            steps -= 1  # the last update of an epoch takes fewer batches, in a call of its own
        return steps

    def _votes(self) -> Votes:
        commands = self.context.commands
        chief, hooks = self.context.is_chief, self.loop.hooks
        wanted = commands.checkpoint_wanted.is_set() or (chief and self.loop.checkpoints.save_is_overdue())
        report_due = self.loop.schedule.batches is None and time.monotonic() - self.reported >= REPORT_SECONDS
        return Votes(
            seconds_per_step=self.seconds_per_step,
            save=float(wanted),
            stop=float(commands.preempted.is_set()),
            report=float(chief and report_due),
            stop_training=float(chief and hooks.single_steps and hooks.wants_stop()),
        )

    def _advance(self, steps: int, seconds: float, result: StepResult) -> None:
        """Advance the position by `steps` steps, and add their metrics."""
        before, self.calls = self.position, self.calls + 1
        batches = self.loop.schedule.batches_in(before.step, steps)
        data = before.data.after(batches, result.examples, self.context.workers)
        self.position = TrainingPosition(before.step + steps, data)
        if self.calls == 1:
            restore_garbage_collection()
            self.context.reporter.phase("first_step", seconds)
            self.context.reporter.phase("train")
        else:
            self.seconds_per_step = seconds / steps
        shared = self.context.workers > 1
        self.tuner.learn(result.votes.seconds_per_step / self.context.workers if shared else self.seconds_per_step)
        self._check_finite(before.step, result)
        self.steps.add(result)
        self._report(steps, seconds, result)

    def _report(self, steps: int, seconds: float, result: StepResult) -> None:
        report = StepReport(
            step=self.position.step,
            epoch=self._epoch(),
            steps=steps,
            seconds=seconds,
            examples=result.examples,
            data_wait_seconds=result.data_wait_seconds,
            means=result.means,
            learning_rate=self._learning_rate(),
            compiled=self.calls == 1,
        )
        self.log.steps_done(report, self.metrics)

    def _epoch(self) -> int:
        """Return the epoch of the last step."""
        return self.loop.schedule.epoch(self.position.step - 1)

    def _learning_rate(self) -> float | None:
        """Return the learning rate, on the chief."""
        return self.loop.trainable.learning_rate() if self.context.is_chief else None

    def _check_finite(self, before: int, result: StepResult) -> None:
        loss = result.means.get("loss")
        if loss is None or math.isfinite(loss):
            return
        step = self.position.step if result.nonfinite_step is None else before + result.nonfinite_step + 1
        self.log.nonfinite_loss(step, result.means)
        raise nonfinite_loss(loss, step)

    def _take_metrics(self) -> None:
        """Read and reset the metrics; every process calls it at the same step."""
        logs = self.steps.last if self.loop.trainable.reports_last_step else self.steps.means()
        self.epoch_logs = {**logs, **self.loop.trainable.metrics()}
        self.metrics = numbers(self.epoch_logs)
        self.loop.trainable.reset_metrics()
        self.steps.reset()
        self.reported = time.monotonic()

    def _end_epoch(self) -> None:
        """Validate, report the metrics of the epoch, and call `on_epoch_end`."""
        loop, epoch, metrics = self.loop, self._epoch(), self.metrics
        loop.trainable.sync_statistics()  # callbacks write too
        validate = loop.hooks.validate if loop.hooks.validation_due(epoch) else None
        if validate is not None:
            self.context.reporter.phase("validate")
            validated = validate()
            if validated is None:
                self.position = replace(self.position, epoch_end_pending=True)
                self._save_and_exit()
            self.epoch_logs.update(validated)
            metrics.update(numbers(validated))
            loop.trainable.reset_metrics()
        self.log.epoch_ended(self.position.step, epoch, metrics, self._learning_rate())
        if loop.hooks.epoch_end is not None:
            loop.hooks.epoch_end(epoch, self.epoch_logs)
            loop.trainable.reset_metrics()  # it may have evaluated something
            metrics.update(numbers(self.epoch_logs))  # it may have added some
        loop.history.append(EpochLogs(epoch, history_logs(self.epoch_logs)))
        self.context.reporter.phase("wait")  # here, for the chief, while a callback writes there
        stop = "1" if loop.hooks.wants_stop() else ""
        self.stopped = bool(self.context.coordination.broadcast(stop)) if self.context.workers > 1 else bool(stop)
        self.position = replace(self.position, epoch_end_pending=False)
        self.context.reporter.phase("train")

    def _save(self) -> None:
        loop = self.loop
        self.context.reporter.phase("save")
        self.context.commands.checkpoint_wanted.clear()
        loop.trainable.sync_statistics()
        self.log.flush()
        sums, state = dict(self.steps.sums), loop.runner.iterator_state(self.position)
        position = replace(self.position, metric_sums=sums, metric_examples=self.steps.examples, iterator_state=state)
        loop.checkpoints.save(position, loop.schedule.epoch(position.step), self.metrics, loop.history)
        self.context.reporter.phase("train")

    def _save_and_exit(self) -> NoReturn:
        """Save, and end with Preempted: one of the processes was asked to exit."""
        step = self.position.step
        directory, earlier = self.loop.checkpoints.directory, self.context.finished
        if directory and step == 0 and earlier is not None:
            raise Preempted(f"asked to leave before step 1; saved step {earlier.step} of the training before")
        if not directory or step == 0:
            raise PreemptedUnsaved(f"asked to leave at step {step}, with nothing saved")
        self._save()
        self.context.reporter.phase("save")
        self.loop.checkpoints.wait_until_finished()
        if self.context.workers > 1:
            self.context.coordination.barrier()
        raise Preempted(f"asked to leave; saved step {step}")
