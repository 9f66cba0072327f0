"""The loop: the same for every strategy and everything that can be trained.

Steps are made in calls. What all processes have to agree on (save now, stop now) travels with each call, so they act
on it at the same step. Boundaries (an epoch's end, `everySteps`) are met exactly.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from dtj_trainer.checkpoint.checkpoint_manager import CheckpointManager
from dtj_trainer.checkpoint.content import TrainingPosition
from dtj_trainer.context import TrainContext
from dtj_trainer.errors import Preempted, PreemptedUnsaved, nonfinite_loss
from dtj_trainer.initialization import restore_garbage_collection
from dtj_trainer.reporting.profiler import Profiler
from dtj_trainer.reporting.training_log import StepReport, TrainingLog
from dtj_trainer.training.history import numbers
from dtj_trainer.training.schedule import Schedule
from dtj_trainer.training.steps.step_runner import StepResult, StepRunner, StepsPerExecutionTuner, Votes
from dtj_trainer.training.steps.trainable import Trainable

REPORT_SECONDS = 5.0
"""Between two reports of metrics where no epochs end."""


@dataclass(slots=True)
class Hooks:
    """What happens around the steps, all optional."""

    batch_begin: Callable[[int], None] | None = None
    batch_end: Callable[[int, dict[str, Any]], None] | None = None
    epoch_begin: Callable[[int], None] = lambda _: None
    epoch_end: Callable[[int, dict[str, Any]], None] | None = None
    validate: Callable[[], Mapping[str, Any] | None] | None = None
    """None from it: asked to leave meanwhile."""
    wants_stop: Callable[[], bool] = lambda: False

    @property
    def single_steps(self) -> bool:
        """Whether somebody wants to be called at each batch."""
        return self.batch_begin is not None or self.batch_end is not None


@dataclass(slots=True)
class TrainingLoop:
    """One training from its position to its length."""

    context: TrainContext
    trainable: Trainable
    call: StepRunner
    schedule: Schedule
    checkpoints: CheckpointManager
    position: TrainingPosition
    accumulate: int = 1
    hooks: Hooks = field(default_factory=Hooks)

    def run(self) -> tuple[TrainingPosition, dict[str, float]]:
        """Train to the end.

        Raises:
            UserError: the loss is no longer finite.
            Preempted: asked to leave; all processes saved and leave together.
        """
        return _Run(self).to_the_end()


class _Run:
    """The moving parts of one run."""

    def __init__(self, loop: TrainingLoop) -> None:
        self.loop = loop
        self.context = loop.context
        self.position = loop.position
        self.tuner = StepsPerExecutionTuner(loop.call.parallel_steps)
        self.seconds_per_step = 0.0
        self.calls = 0
        self.metrics = dict(loop.checkpoints.metrics)
        self.found: dict[str, Any] = dict(self.metrics)
        """The metrics as Keras tells them: some are arrays."""
        self.sums = dict(loop.position.metric_sums)
        self.summed = loop.position.metric_examples
        self.reported = time.monotonic()
        epochs = loop.schedule.epochs if loop.schedule.per_epoch else None
        self.log = TrainingLog(self.context, total_steps=loop.schedule.total, epochs=epochs)
        logs, steps = self.context.environment.checkpoint.logs, self.context.environment.profile_steps
        self.profiler = Profiler(logs, steps, self.context.reporter, self.context.commands)
        self.stopped = False

    def to_the_end(self) -> tuple[TrainingPosition, dict[str, float]]:
        loop = self.loop
        if self.position.step:
            self.log.resumed(self.position.step)
        try:
            if self.position.epoch_end_pending and loop.schedule.ends_epoch(self.position.step):
                self._begin_again(loop.schedule.epoch(self.position.step - 1))
                self._end_epoch()
                self._begin_epoch()
            elif 0 < self.position.step < loop.schedule.total:
                self._begin_again(loop.schedule.epoch(self.position.step))
            else:
                self._begin_epoch()
            while not self._over():
                self._call()
        except Exception:
            loop.checkpoints.wait_before_exit()
            raise
        finally:
            self.profiler.close()
            self.log.close()
        return self.position, self.metrics

    def _call(self) -> None:
        loop, commands = self.loop, self.context.commands
        loop.checkpoints.check_for_errors()
        if self.context.workers == 1 and commands.preempted.is_set():
            self._leave()
        steps = self._steps()
        if loop.hooks.batch_begin is not None:
            loop.hooks.batch_begin(self.position.step)
        self.profiler.before(self.position.step, steps)
        started = time.monotonic()
        called = loop.call(steps, self._votes())
        seconds = time.monotonic() - started
        self._moved(steps, seconds, called)
        self.profiler.after(self.position.step)
        if loop.hooks.batch_end is not None:
            loop.hooks.batch_end(self.position.step - 1, {**self._means(), **loop.trainable.local_metrics()})
            self.stopped = loop.hooks.wants_stop() if self.context.workers == 1 else called.votes.stop_training > 0
        ends_epoch = self.stopped or loop.schedule.ends_epoch(self.position.step)
        if ends_epoch:
            self._take_metrics()
            self._end_epoch()
            self._begin_epoch()  # before a save: some callbacks take back here what they did at the epoch's end
        elif called.votes.report > 0:
            self._take_metrics()
            self.log.metrics(self.position.step, self._epoch(), self.metrics, self._learning_rate())
        last = self._over()
        if loop.checkpoints.should_save(self.position.step, requested=called.votes.save > 0) and not last:
            self._save()
        if called.votes.stop > 0 and not last:
            self._leave()

    def _over(self) -> bool:
        return self.position.step >= self.loop.schedule.total or self.stopped

    def _begin_epoch(self) -> None:
        if not self._over():
            self.loop.hooks.epoch_begin(self.loop.schedule.epoch(self.position.step))

    def _begin_again(self, epoch: int) -> None:
        """Tell callbacks of an epoch that had begun before the save: what they set the learning rate to is in it."""
        with self.loop.trainable.same_rate():
            self.loop.hooks.epoch_begin(epoch)

    def _steps(self) -> int:
        if self.loop.hooks.single_steps:
            return 1
        step = self.position.step
        ends = [self.loop.schedule.next_end(step), self.loop.checkpoints.next_save_step(step)]
        return max(1, min(self.tuner.count, *(end - step for end in ends if end is not None)))

    def _votes(self) -> Votes:
        commands = self.context.commands
        chief, hooks = self.context.is_chief, self.loop.hooks
        wanted = commands.checkpoint_wanted.is_set() or (chief and self.loop.checkpoints.save_is_overdue())
        silent = self.loop.schedule.per_epoch is None and time.monotonic() - self.reported >= REPORT_SECONDS
        return Votes(
            seconds_per_step=self.seconds_per_step,
            save=float(wanted),
            stop=float(commands.preempted.is_set()),
            report=float(chief and silent),
            stop_training=float(chief and hooks.single_steps and hooks.wants_stop()),
        )

    def _moved(self, steps: int, seconds: float, called: StepResult) -> None:
        """Take note of `steps` more steps."""
        before, self.calls = self.position, self.calls + 1
        data = before.data.after(steps * self.loop.accumulate, called.examples, self.context.workers)
        self.position = TrainingPosition(before.step + steps, data)
        if self.calls == 1:
            restore_garbage_collection()
            self.context.reporter.phase("first_step", seconds)
            self.context.reporter.phase("train")
        else:
            self.seconds_per_step = seconds / steps
        told = self.context.workers > 1
        self.tuner.learn(called.votes.seconds_per_step / self.context.workers if told else self.seconds_per_step)
        self._check_finite(before.step, called)
        for name, value in called.means.items():
            self.sums[name] = self.sums.get(name, 0.0) + value * called.examples
        self.summed += called.examples
        self._report(steps, seconds, called)

    def _report(self, steps: int, seconds: float, called: StepResult) -> None:
        report = StepReport(
            step=self.position.step,
            epoch=self._epoch(),
            steps=steps,
            seconds=seconds,
            examples=called.examples,
            data_wait_seconds=called.data_wait_seconds,
            means=called.means,
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

    def _check_finite(self, before: int, called: StepResult) -> None:
        loss = called.means.get("loss")
        if loss is None or math.isfinite(loss):
            return
        step = self.position.step if called.nonfinite_step is None else before + called.nonfinite_step + 1
        self.log.nonfinite_loss(step, called.means)
        raise nonfinite_loss(loss, step)

    def _means(self) -> dict[str, float]:
        """Of what the steps have returned since the metrics were last taken."""
        return {name: total / self.summed for name, total in self.sums.items()}

    def _take_metrics(self) -> None:
        """Means since this was last done; every process does it at the same step."""
        self.found = {**self._means(), **self.loop.trainable.metrics()}
        self.metrics = numbers(self.found)
        self.loop.trainable.reset_metrics()
        self.sums, self.summed, self.reported = {}, 0, time.monotonic()

    def _end_epoch(self) -> None:
        """Validate, and tell everybody the metrics of the epoch."""
        loop, epoch, metrics = self.loop, self._epoch(), self.metrics
        loop.trainable.sync_statistics()  # callbacks write too
        rests = loop.hooks.validate is not None or loop.hooks.epoch_end is not None
        if rests:
            self.context.reporter.phase("validate")
        if loop.hooks.validate is not None:
            validated = loop.hooks.validate()
            if validated is None:
                self.position = replace(self.position, epoch_end_pending=True)
                self._leave()
            self.found.update(validated)
            metrics.update(numbers(validated))
            loop.trainable.reset_metrics()
        self.log.epoch_ended(self.position.step, epoch, metrics, self._learning_rate())
        if loop.hooks.epoch_end is not None:
            loop.hooks.epoch_end(epoch, self.found)
            loop.trainable.reset_metrics()  # it may have evaluated something
            metrics.update(numbers(self.found))  # it may have added some
        asked = "1" if loop.hooks.wants_stop() else ""
        self.stopped = bool(self.context.coordination.broadcast(asked)) if self.context.workers > 1 else bool(asked)
        self.position = replace(self.position, epoch_end_pending=False)
        if rests:  # until here: what a callback writes on the chief, the others wait for
            self.context.reporter.phase("train")

    def _save(self) -> None:
        self.context.reporter.phase("save")
        self.context.commands.checkpoint_wanted.clear()
        self.loop.trainable.sync_statistics()
        self.log.flush()
        position = replace(self.position, metric_sums=dict(self.sums), metric_examples=self.summed)
        self.loop.checkpoints.save(position, self.loop.schedule.epoch(self.position.step), self.metrics)
        self.context.reporter.phase("train")

    def _leave(self) -> NoReturn:
        """Save, if there is something and somewhere, and end: somebody asked one of us to."""
        step = self.position.step
        if not self.loop.checkpoints.directory or step == 0:
            raise PreemptedUnsaved(f"asked to leave at step {step}, with nothing saved")
        self._save()
        self.context.reporter.phase("save")
        self.loop.checkpoints.wait_until_finished()
        if self.context.workers > 1:
            self.context.coordination.barrier()
        raise Preempted(f"asked to leave; saved step {step}")
