"""The inputs of the supervisor's loop: signals, readable connections, and requests of other threads."""

from __future__ import annotations

import contextlib
import selectors
import signal
import socket
from collections import deque
from collections.abc import Iterable, Sequence

from dtj_trainer.ipc.connection import Connection
from dtj_trainer.ipc.messages import Profile, SaveNow
from dtj_trainer.supervisor.http.peer_client import PeerAnswer
from dtj_trainer.supervisor.membership import Member

Request = SaveNow | Profile | Member | PeerAnswer
"""What another thread has for the loop; a member is a peer that told about itself."""


class Inbox:
    """A selector for all inputs of the loop."""

    def __init__(self) -> None:
        self._signals: deque[int] = deque()
        self._requests: deque[Request] = deque()
        self._error: BaseException | None = None
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        for end in (self._wake, self._woken):
            end.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def close(self) -> None:
        """Free the descriptors."""
        for each in (self._selector, self._wake, self._woken):
            each.close()

    def handle_signals(self, early: Sequence[int]) -> None:
        """Handle signals from now on, and those that came before; before anybody is told that we are there."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, self.on_signal)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for came in early:
            signal.raise_signal(came)

    def on_signal(self, number: int, _frame: object) -> None:
        """Keep a signal for the loop."""
        self._signals.append(number)

    def put(self, request: Request) -> None:
        """Keep a request for the loop and wake it; from any thread."""
        self._requests.append(request)
        with contextlib.suppress(BlockingIOError):
            self._wake.send(b"!")

    def fail(self, error: BaseException | None) -> None:
        """Let the loop end with the error of another thread."""
        self._error = error
        with contextlib.suppress(BlockingIOError):
            self._wake.send(b"!")

    def signals(self) -> list[int]:
        """Return the signals that came since the last call."""
        return [self._signals.popleft() for _ in range(len(self._signals))]

    def requests(self) -> list[Request]:
        """Return the requests that came since the last call; raises the error of a thread that failed."""
        if self._error is not None:
            raise self._error
        return [self._requests.popleft() for _ in range(len(self._requests))]

    def wait(self, connections: Iterable[Connection | None], seconds: float) -> None:
        """Wait until something is there, at most so long."""
        self.watch({connection for connection in connections if connection is not None and connection.connected})
        self._selector.select(seconds)
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)

    def watch(self, connections: set[Connection]) -> None:
        """Select on these; each is told by its object, as a new one may have the number of one that was closed."""
        wanted: set[Connection | socket.socket] = {self._woken, *connections}
        watched = {key.fileobj for key in self._selector.get_map().values()}
        for gone in watched.difference(wanted):
            self._selector.unregister(gone)
        for new in wanted.difference(watched):
            self._selector.register(new, selectors.EVENT_READ)
