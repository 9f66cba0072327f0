"""The commands of a supervisor to its training process: start, preempt, save, profile, leave.

Standard library only. A process that listens ends when its supervisor is gone.
"""

from __future__ import annotations

import contextlib
import os
import threading
from functools import cache

from dtj_trainer.contract import EXIT_RETRY
from dtj_trainer.ipc.connection import Connection, supervisor_connection
from dtj_trainer.ipc.messages import Leave, Message, Preempt, Profile, SaveNow, Start
from dtj_trainer.ipc.reporter import Reporter, process_reporter


class Commands:
    """The commands that have arrived. All methods may be called from any thread."""

    def __init__(self, connection: Connection, reporter: Reporter) -> None:
        self._connection = connection
        self._reporter = reporter
        self._lock = threading.Lock()
        self._listener: threading.Thread | None = None
        self.preempted = threading.Event()
        """SIGTERM arrived: save and leave within the grace period."""
        self.checkpoint_wanted = threading.Event()
        """Somebody asked for a checkpoint; clear it when it is saved."""
        self.profile_wanted: int | None = None
        """So many steps to profile from the next one on; set to None when taken."""
        self._start: Start | None = None
        self._start_or_end = threading.Event()
        self._leave = threading.Event()

    def listen(self) -> None:
        """Receive commands from now on, on a thread."""
        if not self._connection.connected:
            return
        with self._lock:
            if self._listener is None:
                self._listener = threading.Thread(target=self._listen, name="dtj-commands", daemon=True)
                self._listener.start()

    def wait_for_start(self) -> Start | None:
        """Wait until the program may start; None when the supervisor is gone."""
        if self._listener is not None:
            self._start_or_end.wait()
            return self._start
        while self._start is None and (message := self._connection.receive()) is not None:
            self._obey(message)
        return self._start

    def wait_for_leave(self, seconds: float) -> bool:
        """Wait until the supervisor says that the peers are done too, at most `seconds`; returns whether it has."""
        if not self._connection.connected:
            return True
        self.listen()
        return self._leave.wait(seconds)

    def _listen(self) -> None:
        """Handle all commands; without its supervisor the process ends at once, like the zygote."""
        with contextlib.suppress(OSError):  # the program has closed this end
            while (message := self._connection.receive()) is not None:
                self._obey(message)
            if not self._reporter.exit_reported:
                os._exit(EXIT_RETRY)
        self._leave.set()
        self._start_or_end.set()

    def _obey(self, message: Message) -> None:
        match message:
            case Start():
                self._start = message
                self._start_or_end.set()
            case Preempt():
                self.preempted.set()
            case SaveNow():
                self.checkpoint_wanted.set()
            case Profile(steps):
                self.profile_wanted = steps
            case Leave():
                self._leave.set()


@cache
def process_commands() -> Commands:
    """Return the commands of this process, always the same object."""
    return Commands(supervisor_connection(), process_reporter())
