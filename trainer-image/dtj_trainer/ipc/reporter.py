"""The reports of a training process to its supervisor: phases, steps, checkpoints and its exit.

Standard library only.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache
from typing import Final

from dtj_trainer.ipc.callback_watch import CallbackWatch
from dtj_trainer.ipc.connection import Connection, supervisor_connection
from dtj_trainer.ipc.messages import (
    BatchesValidated,
    CheckpointRestored,
    CheckpointSaved,
    CheckpointStarted,
    Hello,
    PhaseChanged,
    ProcessExit,
    ReadyForTakeover,
    Serving,
    StepsDone,
    TrainingFinished,
    TrainingStarted,
)

REPORT_SECONDS: Final = 0.1
"""At most one report of steps in this time, but for the first one of a process."""
ENDING_SAVE_SECONDS: Final = 1.0
"""How long a save that goes on beside the training keeps a process whose cluster is lost: both ends wait so long."""
MESSAGE_CHARACTERS: Final = 8000
"""Of the sentence that a process ends with."""


class Reporter:
    """The sender of reports to the supervisor, if there is one. All methods may be called from any thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._held: StepsDone | None = None
        self._sent_at = -math.inf
        self._validated_at = -math.inf
        self._callbacks = CallbackWatch(connection)
        self.exit_reported = False

    @property
    def connected(self) -> bool:
        """Whether a supervisor listens."""
        return self._connection.connected

    def hello(self) -> None:
        """Report that this program reports its steps and handles commands."""
        self._connection.send(Hello())

    def phase(self, name: str, seconds: float | None = None) -> None:
        """Report the current phase (see PhaseChanged)."""
        self.flush()
        self._connection.send(PhaseChanged(name, seconds))

    def training_started(self, number: int, name: str | None) -> None:
        """Report that a training of the program begins."""
        self.flush()
        self._connection.send(TrainingStarted(number, name))

    def training_finished(self, saved_step: int | None) -> None:
        """Report that a training of the program has finished, and the step of its last checkpoint."""
        self.flush()
        self._connection.send(TrainingFinished(saved_step))

    def steps_done(self, done: StepsDone) -> None:
        """Report steps, at most about ten times a second; steps in between are added to the next report."""
        if not self.connected:
            return
        with self._lock:
            held = self._held
            self._held = done if held is None else _sum(held, done)
            if time.monotonic() - self._sent_at < REPORT_SECONDS:
                return
        self.flush()

    def flush(self) -> None:
        """Send the steps that are still buffered."""
        if not self.connected:
            return
        with self._lock:
            if self._held is not None and self._connection.send(self._held, patience=0.0):
                self._held, self._sent_at = None, time.monotonic()

    def checkpoint_started(self, step: int) -> None:
        """Report that this process begins to write the checkpoint of `step`."""
        self._connection.send(CheckpointStarted(step))

    def checkpoint_saved(self, step: int, seconds: float) -> None:
        """Report that the checkpoint of `step` is complete; writing it took `seconds`."""
        self._connection.send(CheckpointSaved(step, seconds))

    def checkpoint_restored(self, step: int) -> None:
        """Report that this process continues from the checkpoint of `step`."""
        self._connection.send(CheckpointRestored(step))

    def batches_validated(self) -> None:
        """Report that the validation goes on, at most about ten times a second."""
        now = time.monotonic()
        if now - self._validated_at >= REPORT_SECONDS:
            self._validated_at = now
            self._connection.send(BatchesValidated())

    def callback(self, method: str) -> AbstractContextManager[None]:
        """Return a context for a call of this method of callbacks."""
        return self._callbacks.call(method)

    def serving(self) -> None:
        """Report that the TensorFlow server of this process serves."""
        self._connection.send(Serving())

    def ready_for_takeover(self) -> None:
        """Report that this standby is prepared up to its first step."""
        self._connection.send(ReadyForTakeover())

    def exit(self, exit: ProcessExit) -> None:  # noqa: A002 - what is reported
        """Report how this process ends; call it just before `os._exit(exit.exit_code)`."""
        self.exit_reported = True
        self.flush()
        self._connection.send(replace(exit, message=exit.message[:MESSAGE_CHARACTERS]))


def _sum(held: StepsDone, done: StepsDone) -> StepsDone:
    return replace(
        done,
        steps=held.steps + done.steps,
        seconds=held.seconds + done.seconds,
        examples=held.examples + done.examples,
        data_wait_seconds=held.data_wait_seconds + done.data_wait_seconds,
    )


@cache
def process_reporter() -> Reporter:
    """Return the reporter of this process, always the same object."""
    return Reporter(supervisor_connection())
