"""The trainer's metrics in Prometheus' text format, version 0.0.4."""

from __future__ import annotations

import bisect
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dtj_trainer.ipc.messages import CheckpointRestored, CheckpointSaved, Message, PhaseChanged, StepsDone
from dtj_trainer.supervisor.progress import BRINGUP_PHASES

STEP_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
CHECKPOINT_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


@dataclass(slots=True)
class Histogram:
    """Counts of observations at or below each bound; seconds."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, seconds: float, times: int = 1) -> None:
        """`times` observations of the same value."""
        self.counts[bisect.bisect_left(self.bounds, seconds)] += times
        self.total += seconds * times

    def lines(self, name: str) -> list[str]:
        """Cumulative buckets, sum and count."""
        lines, count = [], 0
        for bound, more in zip((*map(_number, self.bounds), "+Inf"), self.counts, strict=True):
            count += more
            lines.append(f'{name}_bucket{{le="{bound}"}} {count}')
        return [*lines, f"{name}_sum {_number(self.total)}", f"{name}_count {count}"]


@dataclass(slots=True)
class Metrics:
    """Everything that is counted; survives the child."""

    step_seconds: Histogram = field(default_factory=lambda: Histogram(STEP_BUCKETS))
    checkpoint_seconds: Histogram = field(default_factory=lambda: Histogram(CHECKPOINT_BUCKETS))
    steps: int = 0
    examples: int = 0
    data_wait_seconds: float = 0.0
    loss: float | None = None
    learning_rate: float | None = None
    last_checkpoint_step: int | None = None
    restarts: Counter[str] = field(default_factory=Counter)
    stalls: int = 0
    bringup: dict[str, float] = field(default_factory=dict)

    def hear(self, message: Message) -> None:
        """Count what a message of the child's brings."""
        match message:
            case PhaseChanged(phase, seconds) if phase in BRINGUP_PHASES and seconds is not None:
                self.bringup[phase] = seconds
            case StepsDone():
                self._steps_made(message)
            case CheckpointRestored(step):
                self.last_checkpoint_step = step
            case CheckpointSaved(step, seconds):
                self.last_checkpoint_step = step
                self.checkpoint_seconds.observe(seconds)

    def _steps_made(self, done: StepsDone) -> None:
        self.steps += done.steps
        self.examples += done.examples
        self.data_wait_seconds += done.data_wait_seconds
        self.loss = done.loss
        self.learning_rate = done.learning_rate
        if done.steps:
            self.step_seconds.observe(done.seconds / done.steps, done.steps)

    def text(self, *, peers_ready: int, standby_ready: bool, child: int | None) -> str:
        """The page of /metrics; `child` is the pid whose memory is shown."""
        page: list[str] = []

        def family(name: str, kind: str, text: str, lines: list[str]) -> None:
            page.extend((f"# HELP {name} {text}", f"# TYPE {name} {kind}", *lines))

        def single(name: str, kind: str, text: str, value: float | None) -> None:
            family(name, kind, text, [] if value is None else [f"{name} {_number(value)}"])

        name = "dtj_step_seconds"
        family(name, "histogram", "Seconds of one training step.", self.step_seconds.lines(name))
        single("dtj_steps_total", "counter", "Training steps made.", self.steps)
        single("dtj_examples_total", "counter", "Examples trained on.", self.examples)
        single("dtj_loss", "gauge", "Loss of the last step.", self.loss)
        single("dtj_learning_rate", "gauge", "Learning rate of the last step.", self.learning_rate)
        single("dtj_data_wait_seconds_total", "counter", "Seconds spent waiting for data.", self.data_wait_seconds)
        name = "dtj_checkpoint_seconds"
        family(name, "histogram", "Seconds to save a checkpoint.", self.checkpoint_seconds.lines(name))
        single("dtj_last_checkpoint_step", "gauge", "Step of the newest checkpoint.", self.last_checkpoint_step)
        family(
            "dtj_restarts_total",
            "counter",
            "Restarts in place, by cause.",
            [f'dtj_restarts_total{{cause="{cause}"}} {n}' for cause, n in sorted(self.restarts.items())],
        )
        family(
            "dtj_bringup_seconds",
            "gauge",
            "Seconds of each phase of the last bring-up.",
            [f'dtj_bringup_seconds{{phase="{p}"}} {_number(s)}' for p, s in sorted(self.bringup.items())],
        )
        single("dtj_stalls_total", "counter", "Times that training stood still.", self.stalls)
        single("dtj_peers_ready", "gauge", "Peers that stand at our generation.", peers_ready)
        single("dtj_standby_ready", "gauge", "Whether a second process is ready to take over.", int(standby_ready))
        single(
            "process_resident_memory_bytes",
            "gauge",
            "Resident memory of the training process.",
            resident_bytes(child),
        )
        return "\n".join(page) + "\n"


def _number(value: float) -> str:
    return repr(value) if isinstance(value, int) or value != int(value) else str(int(value))


def resident_bytes(pid: int | None) -> int | None:
    """Memory that a process has in use; None where that cannot be told."""
    if pid is None:
        return None
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
