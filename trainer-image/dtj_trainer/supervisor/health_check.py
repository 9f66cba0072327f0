"""Whether a running process makes progress: stalls, hanging saves, silent servers."""

from __future__ import annotations

import threading
from typing import Final

from dtj_trainer.cluster.probes import serves
from dtj_trainer.supervisor.progress import Progress
from dtj_trainer.supervisor.settings import Settings
from dtj_trainer.supervisor.training_process import KillReason, TrainingProcess

PROBE_EVERY_SECONDS: Final = 3.0
MISSES: Final = 3
"""So many probes in a row that a server does not answer are too many."""


class HealthCheck:
    """A check of a running process; kills it if it makes no progress."""

    def __init__(self, settings: Settings, progress: Progress, port: int) -> None:
        """Set up the check; `port` is that of the TensorFlow server."""
        self._settings = settings
        self._progress = progress
        self._server = ServerWatch(port)

    def restart(self, now: float) -> None:
        """Begin again with a new process."""
        self._server.restart(now)

    def check(self, process: TrainingProcess, now: float) -> None:
        """Kill the process if it makes no progress."""
        if not process.started or process.pid is None or process.kill_reason is not None:
            return
        if process.exit_reported_at is not None:
            if now - process.exit_reported_at > self._settings.save_seconds:
                process.kill()
        elif reason := self._reason(now):
            process.kill(reason)

    def _reason(self, now: float) -> KillReason | None:
        progress, stall, start = self._progress, self._settings.stall_seconds, self._settings.start_seconds
        save = self._settings.save_seconds
        found = {
            KillReason.STALLED: progress.stalled(now, stall, start),
            KillReason.VALIDATION_STALLED: progress.validation_stalled(now, stall, start),
            KillReason.CALLBACK_HANGS: progress.callback_hangs(now, save),
            KillReason.SAVE_HANGS: progress.save_hangs(now, save),
            KillReason.FINISH_HANGS: progress.finish_hangs(now, save),
            KillReason.SERVER_SILENT: progress.serving and self._server.is_silent(now),
        }
        return next((reason for reason, holds in found.items() if holds), None)


class ServerWatch:
    """A watch that probes the TensorFlow server of this pod every few seconds, on its own thread."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._next = 0.0
        self._misses = 0
        self._probing = False

    def restart(self, now: float) -> None:
        """Begin again with a new server."""
        self._misses, self._next = 0, now + PROBE_EVERY_SECONDS

    def is_silent(self, now: float) -> bool:
        """Return whether it has missed several probes in a row; starts the next probe when due."""
        if now >= self._next and not self._probing:
            self._next = now + PROBE_EVERY_SECONDS
            self._probing = True
            threading.Thread(target=self._probe, daemon=True).start()
        return self._misses >= MISSES

    def _probe(self) -> None:
        self._misses = 0 if serves("127.0.0.1", self._port) else self._misses + 1
        self._probing = False
