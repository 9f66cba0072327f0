"""Reports calls of callbacks that last, so that they are no stall and a hung one is found.

Most calls take less time than a message would: a thread looks twice a second whether one goes on.
Standard library only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dtj_trainer.ipc.connection import Connection
from dtj_trainer.ipc.messages import CallbackEnded, CallbackStarted

LOOK_SECONDS: Final = 0.5


class CallbackWatch:
    """The watch over the calls of callbacks in this process; one call at a time, those inside it are part of it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._call: tuple[str, float] | None = None
        """The method that is called, and since when."""
        self._reported = False

    @contextmanager
    def call(self, method: str) -> Iterator[None]:
        """Watch the call of this method of callbacks."""
        if not self._connection.connected or self._call is not None:
            yield
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, name="dtj-callbacks", daemon=True)
            self._thread.start()
        self._call = (method, time.monotonic())
        try:
            yield
        finally:
            with self._lock:
                self._call = None
                if self._reported:
                    self._reported = False
                    self._connection.send(CallbackEnded())

    def _look(self) -> None:
        while self._connection.connected:
            time.sleep(LOOK_SECONDS)
            with self._lock:
                call = self._call
                if call is not None and not self._reported and time.monotonic() - call[1] >= LOOK_SECONDS:
                    self._reported = True
                    self._connection.send(CallbackStarted(call[0]))
