"""The last known state of training, from what the training process reports: readiness, stalls, hanging saves.

Pure: times come in as seconds of one monotonic clock.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from dtj_trainer.ipc.messages import (
    BatchesValidated,
    CallbackEnded,
    CallbackStarted,
    CheckpointRestored,
    CheckpointSaved,
    CheckpointStarted,
    Hello,
    Message,
    PhaseChanged,
    ProcessExit,
    Serving,
    StepsDone,
    TrainingFinished,
    TrainingStarted,
)

READY_FACTOR: Final = 3.0
READY_SECONDS: Final = 5.0
STALL_FACTOR: Final = 10.0
STALL_SECONDS: Final = 30.0
WRITING_PHASES: Final = frozenset({"save", "finish"})
"""The last of a training's writes, its export among them, is `finish`."""
ACTIVE_PHASES: Final = WRITING_PHASES | {"validate", "wait"}
"""Phases without steps in which training is well."""
BRINGUP_PHASES: Final = frozenset({"import", "cluster", "build", "first_step"})
BETWEEN_TRAININGS: Final = "done"
"""The phase of a program that has finished a training, until its next one or its end."""
FIRST_STEP: Final = "first_step"
"""The phase of a program that has trained before, from when all is ready for the first step of the next training."""
_WINDOW: Final = 101


@dataclass(slots=True)
class Progress:
    """The last known state of training; survives the training process."""

    training: TrainingStarted | None = None
    """The last training that has begun."""
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
    """The process reports its steps."""
    serving: bool = False
    stepped: bool = False
    """The present process has made a step."""
    saving_since: float | None = None
    """The present process writes a checkpoint, perhaps beside its steps."""
    callback_since: float | None = None
    """A call of callbacks goes on in the present process."""
    _validated: bool = False
    """The present process has evaluated a batch of validation data."""
    _built: bool = False
    """All is ready for the present process's first step."""
    active_at: float = 0.0
    """The time of the last progress of the current process."""
    _durations: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))

    def process_started(self, now: float) -> None:
        """Forget the process before: of the new one nothing is known yet."""
        self.managed = self.serving = self.stepped = self._built = self._validated = False
        self.phase, self.saving_since, self.callback_since = "", None, None
        self.active_at = now

    def standby_took_over(self) -> None:
        """Expect the first step only: the new process is a standby, made for one that made steps."""
        self.managed = self._built = True

    def process_lost(self) -> None:
        """Forget the process: it is gone."""
        self.managed = self.serving = self.stepped = False
        self.phase, self.saving_since, self.callback_since = "", None, None

    def apply(self, message: Message, now: float, wall: float) -> None:
        """Apply what the process reports at `now`, which is `wall` in Unix time."""
        match message:
            case Hello():
                self.managed = True
            case PhaseChanged(phase):
                self._enter(phase, now)
            case TrainingStarted(number):
                if self.training is not None and self.training.number != number:
                    self.step = self.total_steps = self.epoch = None
                self.training = message
            case TrainingFinished(step):
                self._enter(BETWEEN_TRAININGS, now)
                self.checkpoint_step = step
            case StepsDone():
                self._add_steps(message, now, wall)
            case CheckpointRestored(step):
                self.checkpoint_step = step
            case CheckpointStarted():
                self.saving_since = now
            case CheckpointSaved(step):
                self.saving_since = None
                self.checkpoint_step = step
                self.active_at = now
            case BatchesValidated() | CallbackStarted() | CallbackEnded():
                self._pause(message, now)
            case Serving():
                self.serving = True

    def apply_exit(self, reported: ProcessExit) -> None:
        """Keep what the process says at its end about how far it came."""
        if reported.step is not None:
            self.step = reported.step
        if reported.checkpoint_step is not None:
            self.checkpoint_step = reported.checkpoint_step
        if reported.metrics:
            self.metrics = dict(reported.metrics)

    def status(self) -> dict[str, object]:
        """Return the part of /status about the training."""
        stamp = None if self.updated_at is None else datetime.fromtimestamp(self.updated_at, UTC)
        return {
            "training": self.training and {"number": self.training.number, "name": self.training.name},
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

    def _add_steps(self, done: StepsDone, now: float, wall: float) -> None:
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
        self.active_at = now

    def peer_in_callback(self, now: float) -> None:
        """Count no stall while the process waits, in its next batch, for a peer's callback."""
        if self.stepped and self.phase not in WRITING_PHASES:
            self.active_at = now

    def _pause(self, message: BatchesValidated | CallbackStarted | CallbackEnded, now: float) -> None:
        """Apply what is reported between two training steps."""
        self.active_at = now
        self.callback_since = now if isinstance(message, CallbackStarted) else None
        self._validated = self._validated or isinstance(message, BatchesValidated)

    def _enter(self, phase: str, now: float) -> None:
        if phase not in BRINGUP_PHASES:
            self.phase = phase
            self.active_at = now
        elif phase == "build":
            self._built = True
            self.active_at = now
            if self.stepped:  # a further training of the program
                self.phase = FIRST_STEP

    @property
    def is_saved(self) -> bool:
        """Whether all that the program has trained is finished and saved."""
        return self.phase == BETWEEN_TRAININGS and self.checkpoint_step is not None

    @property
    def median_step(self) -> float:
        """Seconds of the median step; 0 while unknown."""
        return statistics.median(self._durations) if self._durations else 0.0

    @property
    def ready_until(self) -> float:
        """Until when training counts as ready, if nothing more is reported; -inf where it is not ready."""
        if self.phase in ACTIVE_PHASES | {FIRST_STEP, BETWEEN_TRAININGS}:
            return math.inf if self.stepped or self.phase in {"wait", "validate"} else -math.inf
        limit = READY_FACTOR * self.median_step + READY_SECONDS
        return self.active_at + limit if self.stepped else -math.inf

    def patience(self, limit: float | None) -> float:
        """Return the stall time: `limit` where it is given."""
        return STALL_FACTOR * self.median_step + STALL_SECONDS if limit is None else limit

    def stalled(self, now: float, limit: float | None, start: float) -> bool:
        """Return whether the process has made steps and then made none for too long.

        The first one may take `start` seconds from when all is ready for it, if not more: it compiles, and fills
        buffers.
        """
        if self.phase in ACTIVE_PHASES or self.phase == BETWEEN_TRAININGS or self.callback_since is not None:
            return False
        patience = self.patience(limit)
        if not self.stepped or self.phase == FIRST_STEP:
            return self._built and now - self.active_at > max(start, patience)
        return now - self.active_at > patience

    def validation_stalled(self, now: float, limit: float | None, start: float) -> bool:
        """Return whether a validation goes on and evaluates no batch for too long.

        As the first step, the first batch of a process may take `start` seconds.
        """
        if self.phase != "validate" or self.callback_since is not None:
            return False
        patience = self.patience(limit)
        return now - self.active_at > (patience if self._validated else max(start, patience))

    def callback_hangs(self, now: float, limit: float) -> bool:
        """Return whether a call of callbacks has not returned after `limit` seconds."""
        return self.callback_since is not None and now - self.callback_since > limit

    def is_writing(self, now: float, limit: float) -> bool:
        """Return whether the process writes its state or its results, for no more than `limit` seconds."""
        since = self.saving_since
        if since is None and self.phase in WRITING_PHASES:
            since = self.active_at
        return since is not None and now - since <= limit

    def save_hangs(self, now: float, limit: float) -> bool:
        """Return whether a save has begun and is not complete after `limit` seconds."""
        return self.saving_since is not None and now - self.saving_since > limit

    def finish_hangs(self, now: float, limit: float) -> bool:
        """Return whether what comes after the last step and its save has not ended after `limit` seconds."""
        return self.phase == "finish" and now - self.active_at > limit


def _smooth(old: float | None, new: float) -> float:
    return new if old is None else 0.8 * old + 0.2 * new
