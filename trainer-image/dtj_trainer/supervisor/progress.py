"""What the training process has reported, and what follows: readiness and stalls.

Pure: times come in as seconds of one monotonic clock.
"""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from dtj_trainer.ipc.messages import (
    CheckpointRestored,
    CheckpointSaved,
    CheckpointStarted,
    Hello,
    Message,
    PhaseChanged,
    ProcessExit,
    Serving,
    StepsDone,
)

READY_FACTOR: Final = 3.0
READY_SECONDS: Final = 5.0
STALL_FACTOR: Final = 10.0
STALL_SECONDS: Final = 30.0
WRITING_PHASES: Final = frozenset({"save", "finish"})
"""The last of a training's writes, its export among them, is `finish`."""
ALIVE_PHASES: Final = WRITING_PHASES | {"validate", "wait"}
"""Phases without steps that count as life."""
BRINGUP_PHASES: Final = frozenset({"import", "cluster", "build", "first_step"})
_WINDOW: Final = 101


@dataclass(slots=True)
class Progress:
    """The last known state of training; survives the child."""

    step: int | None = None
    total_steps: int | None = None
    epoch: int | None = None
    loss: float | None = None
    learning_rate: float | None = None
    metrics: dict[str, float | None] = field(default_factory=dict)
    checkpoint_step: int | None = None
    steps_per_second: float | None = None
    examples_per_second: float | None = None
    updated_at: float | None = None
    """Unix time of the last step."""
    phase: str = ""
    managed: bool = False
    """The child reports its steps."""
    serving: bool = False
    stepped: bool = False
    """The present child has made a step."""
    saving_since: float | None = None
    """The present child writes a checkpoint, perhaps beside its steps."""
    _built: bool = False
    """All is ready for the present child's first step."""
    _life: float = 0.0
    _durations: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))

    def child_started(self, now: float) -> None:
        """A new child was let go: nothing of it is known yet."""
        self.managed = self.serving = self.stepped = self._built = False
        self.phase, self.saving_since = "", None
        self._life = now

    def taken_over(self) -> None:
        """The new child is a standby, made for one that made steps: it waited for nothing but its first."""
        self.managed = self._built = True

    def child_lost(self) -> None:
        """The child is gone."""
        self.managed = self.serving = self.stepped = False
        self.phase, self.saving_since = "", None

    def hear(self, message: Message, now: float, wall: float) -> None:
        """A message of the child's, at `now`, which is `wall` in Unix time."""
        match message:
            case Hello():
                self.managed = True
            case PhaseChanged(phase):
                self._entered(phase, now)
            case StepsDone():
                self._steps_made(message, now, wall)
            case CheckpointRestored(step):
                self.checkpoint_step = step
            case CheckpointStarted():
                self.saving_since = now
            case CheckpointSaved(step):
                self.saving_since = None
                self.checkpoint_step = step
                self._life = now
            case Serving():
                self.serving = True

    def take_exit(self, reported: ProcessExit) -> None:
        """Keep what the child says at its end of how far it came."""
        if reported.step is not None:
            self.step = reported.step
        if reported.checkpoint_step is not None:
            self.checkpoint_step = reported.checkpoint_step
        if reported.metrics:
            self.metrics = dict(reported.metrics)

    def status(self) -> dict[str, Any]:
        """What /status says of the training."""
        stamp = None if self.updated_at is None else datetime.fromtimestamp(self.updated_at, UTC)
        return {
            "step": self.step,
            "totalSteps": self.total_steps,
            "epoch": self.epoch,
            "stepsPerSecond": self.steps_per_second,
            "examplesPerSecond": self.examples_per_second,
            "loss": self.loss,
            "metrics": self.metrics,
            "lastCheckpointStep": self.checkpoint_step,
            "updatedAt": f"{stamp:%Y-%m-%dT%H:%M:%S}.{stamp.microsecond // 1000:03}Z" if stamp else None,
        }

    def _steps_made(self, done: StepsDone, now: float, wall: float) -> None:
        self.step = done.step
        self.total_steps = done.total_steps or self.total_steps
        self.epoch = done.epoch
        self.loss = done.loss
        self.learning_rate = done.learning_rate
        if done.metrics:
            self.metrics = dict(done.metrics)
        if done.steps and done.seconds > 0:
            if self.stepped:
                self._durations.append(done.seconds / done.steps)
            self.steps_per_second = _smooth(self.steps_per_second, done.steps / done.seconds)
            self.examples_per_second = _smooth(self.examples_per_second, done.examples / done.seconds)
        self.managed = True
        self.stepped = self.stepped or done.steps > 0
        self.updated_at = wall
        self._life = now

    def _entered(self, phase: str, now: float) -> None:
        if phase not in BRINGUP_PHASES:
            self.phase = phase
            self._life = now
        elif phase == "build":
            self._built = True
            self._life = now

    @property
    def median_step(self) -> float:
        """Seconds of the median step; 0 while unknown."""
        return statistics.median(self._durations) if self._durations else 0.0

    def alive(self, now: float) -> bool:
        """Whether steps are being made, or something that counts as life goes on."""
        if self.phase in ALIVE_PHASES:
            return self.stepped or self.phase in {"wait", "validate"}
        limit = READY_FACTOR * self.median_step + READY_SECONDS
        return self.stepped and now - self._life <= limit

    def stalled(self, now: float, limit: float | None, start: float) -> bool:
        """Whether the child has made steps and then made none for too long.

        The first one may take `start` seconds from when all is ready for it, if not more: it compiles, and fills
        buffers.
        """
        if self.phase in ALIVE_PHASES or self.phase == "done":
            return False
        if not self.stepped:
            return self._built and now - self._life > max(start, self.stall_after(limit))
        return now - self._life > self.stall_after(limit)

    def writes(self, now: float, limit: float) -> bool:
        """Whether the child writes its state or its results, and has not done so for more than `limit` seconds."""
        since = self.saving_since
        if since is None and self.phase in WRITING_PHASES:
            since = self._life
        return since is not None and now - since <= limit

    def save_hangs(self, now: float, limit: float) -> bool:
        """Whether a save has begun and is not complete after `limit` seconds."""
        return self.saving_since is not None and now - self.saving_since > limit

    def finish_hangs(self, now: float, limit: float) -> bool:
        """Whether what comes after the last step and its save has not ended after `limit` seconds."""
        return self.phase == "finish" and now - self._life > limit

    def stall_after(self, limit: float | None) -> float:
        """Seconds without a step that are a stall."""
        return STALL_FACTOR * self.median_step + STALL_SECONDS if limit is None else limit


def _smooth(old: float | None, new: float) -> float:
    return new if old is None else 0.8 * old + 0.2 * new
