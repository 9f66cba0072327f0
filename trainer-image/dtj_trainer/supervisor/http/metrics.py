"""The trainer's metrics: counted by the supervisor's loop, shown in Prometheus' text format.

prometheus-client is imported at the first scrape: PID 1 starts without it. Its own counters are not used, as steps come
as "n steps in s seconds".
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from dtj_trainer.cluster.cgroup import resident_bytes
from dtj_trainer.ipc.messages import CheckpointRestored, CheckpointSaved, Message, PhaseChanged, StepsDone
from dtj_trainer.supervisor.progress import BRINGUP_PHASES
from dtj_trainer.supervisor.restart_policy import CAUSES

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from dtj_trainer.supervisor.http.status import SupervisorStatus

STEP_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
CHECKPOINT_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


@dataclass(slots=True)
class Histogram:
    """A histogram of seconds, by upper bound."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, seconds: float, times: int = 1) -> None:
        """Count `times` observations of the same value."""
        self.counts[bisect.bisect_left(self.bounds, seconds)] += times
        self.total += seconds * times

    def buckets(self) -> list[tuple[str, float]]:
        """Return the cumulative count at or below each bound."""
        buckets, count = [], 0
        for bound, more in zip((*(f"{bound:g}" for bound in self.bounds), "+Inf"), self.counts, strict=True):
            count += more
            buckets.append((bound, float(count)))
        return buckets


@dataclass(slots=True)
class Metrics:
    """The counters of the trainer; they survive the training process."""

    step_seconds: Histogram = field(default_factory=lambda: Histogram(STEP_BUCKETS))
    checkpoint_seconds: Histogram = field(default_factory=lambda: Histogram(CHECKPOINT_BUCKETS))
    steps: int = 0
    examples: int = 0
    data_wait_seconds: float = 0.0
    loss: float | None = None
    learning_rate: float | None = None
    last_checkpoint_step: int | None = None
    restarts: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(CAUSES, 0)))
    """From 0 on, because Prometheus sees no increase in the first value of a series."""
    stalls: int = 0
    bringup: dict[str, float] = field(default_factory=dict)

    def apply(self, message: Message) -> None:
        """Count what the training process reports."""
        match message:
            case PhaseChanged(phase, seconds) if phase in BRINGUP_PHASES and seconds is not None:
                self.bringup[phase] = seconds
            case StepsDone():
                self._add_steps(message)
            case CheckpointRestored(step):
                self.last_checkpoint_step = step
            case CheckpointSaved(step, seconds):
                self.last_checkpoint_step = step
                self.checkpoint_seconds.observe(seconds)

    def _add_steps(self, done: StepsDone) -> None:
        self.steps += done.steps
        self.examples += done.examples
        self.data_wait_seconds += done.data_wait_seconds
        self.loss = done.loss
        self.learning_rate = done.learning_rate
        if done.steps:
            self.step_seconds.observe(done.seconds / done.steps, done.steps)


def page(metrics: Metrics, status: SupervisorStatus) -> bytes:
    """Return the page of /metrics."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(metrics, status))
    return generate_latest(registry)


class _Collector:
    """A collector of the current metrics for prometheus-client; the loop may count meanwhile."""

    def __init__(self, metrics: Metrics, status: SupervisorStatus) -> None:
        self._metrics = metrics
        self._status = status

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        def histogram(name: str, text: str, observed: Histogram) -> Metric:
            return HistogramMetricFamily(name, text, buckets=observed.buckets(), sum_value=observed.total)

        def counter(name: str, text: str, value: float) -> Metric:
            return CounterMetricFamily(name, text, value=value)

        def gauge(name: str, text: str, value: float | None) -> Metric:
            family = GaugeMetricFamily(name, text)
            if value is not None:
                family.add_metric([], value)
            return family

        counted, status = self._metrics, self._status
        restarts = CounterMetricFamily("dtj_restarts", "Restarts in place, by cause.", labels=["cause"])
        for cause, number in sorted(counted.restarts.copy().items()):
            restarts.add_metric([cause], number)
        bringup = GaugeMetricFamily(
            "dtj_bringup_seconds", "Seconds of each phase of the last bring-up.", labels=["phase"]
        )
        for phase, seconds in sorted(counted.bringup.copy().items()):
            bringup.add_metric([phase], seconds)
        resident = resident_bytes(status.training_pid)

        yield histogram("dtj_step_seconds", "Seconds of one training step.", counted.step_seconds)
        yield counter("dtj_steps", "Training steps made.", counted.steps)
        yield counter("dtj_examples", "Examples trained on.", counted.examples)
        yield gauge("dtj_loss", "Loss of the last step.", counted.loss)
        yield gauge("dtj_learning_rate", "Learning rate of the last step.", counted.learning_rate)
        yield counter("dtj_data_wait_seconds", "Seconds spent waiting for data.", counted.data_wait_seconds)
        yield histogram("dtj_checkpoint_seconds", "Seconds to save a checkpoint.", counted.checkpoint_seconds)
        yield gauge("dtj_last_checkpoint_step", "Step of the newest checkpoint.", counted.last_checkpoint_step)
        yield restarts
        yield bringup
        yield counter("dtj_stalls", "Times that training stood still.", counted.stalls)
        yield gauge("dtj_peers_ready", "Peers that are ready at our generation.", status.peers_ready)
        yield gauge("dtj_standby_ready", "Whether a second process is ready to take over.", int(status.standby_ready))
        yield gauge("process_resident_memory_bytes", "Resident memory of the training process.", resident)
