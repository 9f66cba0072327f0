"""Reports the steps of a training to the supervisor, the event files and the console."""

from collections.abc import Mapping
from dataclasses import dataclass

from dtj_trainer.context import TrainContext
from dtj_trainer.ipc.messages import StepsDone
from dtj_trainer.reporting.console import Console
from dtj_trainer.reporting.event_files import EventFileWriter


@dataclass(frozen=True, slots=True)
class StepReport:
    """The results of the steps of one call."""

    step: int
    """The last of them, counted from 1."""
    epoch: int
    steps: int
    seconds: float
    examples: int
    data_wait_seconds: float
    means: Mapping[str, float]
    """Of the loss and of other scalars, over these steps."""
    learning_rate: float | None
    """None but on the chief."""
    compiled: bool
    """TensorFlow compiled the step during this call, which therefore says nothing about the speed."""


class TrainingLog:
    """The reports of one training: every process to its supervisor; the chief also to event files and console."""

    def __init__(
        self,
        context: TrainContext,
        logs: str,
        *,
        total_steps: int | None,
        epochs: int | None,
        verbose: str | int = "auto",
    ) -> None:
        self._reporter = context.reporter
        self._events = EventFileWriter(logs if context.is_chief else "")
        self._console = Console(enabled=context.is_chief, total_steps=total_steps, epochs=epochs, verbose=verbose)
        self._total_steps = total_steps
        self._loss: float | None = None

    def resumed(self, step: int) -> None:
        """Report that the training continues after `step`."""
        of = "" if self._total_steps is None else f" of {self._total_steps}"
        self._console.print(f"going on after step {step}{of}")

    def steps_done(self, report: StepReport, metrics: Mapping[str, float]) -> None:
        """Report steps; `metrics` are those of the last epoch."""
        self._loss = report.means.get("loss")
        done = StepsDone(
            step=report.step,
            steps=report.steps,
            seconds=report.seconds,
            examples=report.examples,
            data_wait_seconds=report.data_wait_seconds,
            total_steps=self._total_steps,
            epoch=report.epoch,
            loss=self._loss,
            learning_rate=report.learning_rate,
            metrics=dict(metrics),
        )
        self._reporter.steps_done(done)
        speed = {} if report.compiled else {"steps_per_second": report.steps / report.seconds}
        self._events.write(report.step, {**report.means, "learning_rate": report.learning_rate, **speed})
        self._console.steps_done(report.step, report.epoch, self._loss, report.examples)

    def metrics(self, step: int, epoch: int, metrics: Mapping[str, float], learning_rate: float | None) -> None:
        """Report new metrics to the supervisor without a step."""
        done = StepsDone(
            step=step,
            steps=0,
            seconds=0.0,
            total_steps=self._total_steps,
            epoch=epoch,
            loss=self._loss,
            learning_rate=learning_rate,
            metrics=dict(metrics),
        )
        self._reporter.steps_done(done)

    def epoch_ended(self, step: int, epoch: int, metrics: Mapping[str, float], learning_rate: float | None) -> None:
        """Report the metrics of an epoch."""
        self.metrics(step, epoch, metrics, learning_rate)
        self._events.write(step, {f"epoch/{name}": value for name, value in metrics.items()})
        self._console.epoch_ended(step, epoch, metrics)

    def nonfinite_loss(self, step: int, means: Mapping[str, float]) -> None:
        """Write the means of a step whose loss is NaN or infinite into the event files."""
        self._events.write(step, means)

    def flush(self) -> None:
        """Flush the event files."""
        self._events.flush()

    def close(self) -> None:
        """Close the event files, and upload the rest of them."""
        self._events.close()
