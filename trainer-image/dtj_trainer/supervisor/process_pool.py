"""Spawns training processes, through the zygote or without one, and reaps them.

Used by the supervisor's loop alone; not thread-safe.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from dtj_trainer.ipc.connection import LINK_FD, Connection
from dtj_trainer.ipc.messages import Exited, Fork, Message, Retire, Started, StartOrder, ZygoteReady, encode
from dtj_trainer.preload.spawn import Spawned, spawn

PR_SET_CHILD_SUBREAPER: Final = 36
"""linux/prctl.h: orphans of a dead zygote come to us, also where we are not PID 1."""
FIRST_BACKOFF: Final = 0.5
LAST_BACKOFF: Final = 30.0
TRIES: Final = 3
"""After so many zygotes that never got ready, processes are executed without one."""
SILENT_SECONDS: Final = 10.0
"""A zygote that does not answer for so long is frozen, and is killed; its children are reparented to us."""

ORDER: Final = "DTJ_CHILD_ORDER"
OWN_PREFIX: Final = "DTJ_"
"""Variables that nothing reads while TensorFlow is imported begin so: a process may be given another value."""


@dataclass(frozen=True, slots=True)
class StartFailed:
    """An event: a requested process could not be started; its zygote is gone, or no process could be created."""

    number: int


Event = Started | StartFailed | Exited | ZygoteReady


class ProcessPool:
    """A pool that spawns processes and reports their start and exit as events."""

    def __init__(self, environment: Mapping[str, str], zygote: Spawned | None = None, *, preload: bool) -> None:
        self._environment = dict(environment)
        self.preload = preload
        self.control: Connection | None = None
        """To the zygote."""
        self.loaded = False
        """Whether the zygote has imported TensorFlow."""
        self._zygote: int | None = None
        """Its pid."""
        self._missing_variables: Mapping[str, str] = {}
        """The part of the environment that the zygote was not started with: its forks are given it."""
        self._failures = 0
        self._retry_at = 0.0
        self._spawned = 0
        self._waiting: list[tuple[int, StartOrder, socket.socket]] = []
        self._requested: set[int] = set()
        """What the zygote was asked for and has not yet said to exist."""
        self._forked: set[int] = set()
        """The pids of its forks."""
        self._owes_since: float | None = None
        """Since when the zygote has not said a word, although it was asked for a fork or has lost one."""
        self._events: list[Event] = []
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if zygote is not None:
            self._adopt(zygote)

    def spawn(self, order: StartOrder, end: socket.socket) -> int:
        """Ask for a process with its end of a connection; `Started` or `StartFailed` follows, with this number."""
        self._spawned += 1
        self._waiting.append((self._spawned, order, end))
        self.poll(time.monotonic())
        return self._spawned

    def poll(self, now: float) -> None:
        """Keep the zygote alive and hand on the orders that wait."""
        self._check_zygote(now)
        if self.preload and self._zygote is None and now >= self._retry_at:
            self._start_zygote()
        if self.preload and not self.loaded:
            return
        waiting, self._waiting = self._waiting, []
        for number, order, end in waiting:
            if self.preload and self.control is not None:
                self._fork(number, order, end)
            else:
                self._execute(number, order, end)

    def next_poll(self) -> float | None:
        """Return when `poll` has something to do by itself (monotonic seconds)."""
        return self._retry_at if self.preload and self._zygote is None else None

    def receive(self) -> None:
        """Read all messages of the zygote."""
        with suppress(OSError):  # BlockingIOError: that is all for now
            while self.control is not None and (message := self.control.receive()) is not None:
                self._on_message(message)

    def _on_message(self, message: Message) -> None:
        self._owes_since = None
        match message:
            case ZygoteReady():
                self.loaded = True
                self._events.append(message)
            case Started(number, pid):
                self._requested.discard(number)
                self._forked.add(pid)
                self._events.append(message)
            case Exited(pid):
                self._forked.discard(pid)
                self._events.append(message)

    def reap(self) -> None:
        """Wait for every process that has ended: the zygote, executed processes, orphans."""
        self.receive()  # what the zygote said before it died comes first
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._zygote:
                self.receive()
                self._zygote_died()
            else:
                self._events.append(Exited(pid, status))

    def events(self) -> list[Event]:
        """Return what has happened since the last call."""
        events, self._events = self._events, []
        return events

    def retire(self) -> None:
        """Stop the zygote: no more processes will be spawned. Its running forks stay."""
        self.preload = False
        if self._zygote is not None and not self.loaded:
            os.kill(self._zygote, signal.SIGKILL)  # it has no forks, and would hear of it only after all imports
        elif self.control is not None:
            self.control.send(Retire())

    def close(self) -> None:
        """Stop the zygote and all its forks."""
        for _, _, end in self._waiting:
            end.close()
        self._waiting.clear()
        if self.control is not None:
            self.control.close()
            self.control = None
        if self._zygote is not None:
            os.kill(self._zygote, signal.SIGKILL)

    def _check_zygote(self, now: float) -> None:
        awaits_answer = bool(self._requested) or any(is_dead(pid) for pid in self._forked)
        if self._zygote is None or not awaits_answer:
            self._owes_since = None
        elif self._owes_since is None:
            self._owes_since = now
        elif now - self._owes_since >= SILENT_SECONDS:
            os.kill(self._zygote, signal.SIGKILL)

    def _start_zygote(self) -> None:
        try:
            zygote = spawn(self._environment)
        except OSError:  # the container has as many processes as it may, or no memory for one
            self._zygote_died()
        else:
            self._adopt(zygote)

    def _adopt(self, zygote: Spawned) -> None:
        """Let this be the zygote, if one is wanted, and was started with nothing that it is not to have."""
        wrong = [name for name, value in zygote.environment.items() if self._environment.get(name) != value]
        if self.preload and all(name.startswith(OWN_PREFIX) for name in wrong):
            zygote.control.setblocking(False)
            self._zygote, self.control, self.loaded = zygote.pid, Connection(zygote.control), False
            self._missing_variables = dict(self._environment.items() - zygote.environment.items())
        else:
            zygote.dismiss()

    def _zygote_died(self) -> None:
        if self.control is not None:
            self.control.close()
        self._failures = 1 if self.loaded else self._failures + 1
        self._zygote, self.control, self.loaded = None, None, False
        self._events += [StartFailed(number) for number in sorted(self._requested)]
        self._requested.clear()
        self._forked.clear()
        wait = min(FIRST_BACKOFF * 2 ** (self._failures - 1), LAST_BACKOFF)
        self._retry_at = time.monotonic() + wait
        if self._failures >= TRIES:
            self.preload = False

    def _fork(self, number: int, order: StartOrder, end: socket.socket) -> None:
        assert self.control is not None
        complete = replace(order, environment={**self._missing_variables, **order.environment})
        try:
            self.control.send_with(Fork(number, complete), end.fileno())
        except OSError:
            self._waiting.append((number, order, end))
        else:
            self._requested.add(number)
            end.close()

    def _execute(self, number: int, order: StartOrder, end: socket.socket) -> None:
        import subprocess  # seldom

        environment = {
            **self._environment,
            LINK_FD: str(end.fileno()),
            ORDER: encode(Fork(number, order)).decode(),
        }
        with end:
            try:
                process = subprocess.Popen(
                    [sys.executable, "-m", "dtj_trainer.process.main"],
                    pass_fds=[end.fileno()],
                    env=environment,
                )
            except OSError:  # as for a zygote
                self._events.append(StartFailed(number))
                return
        self._events.append(Started(number, process.pid))
        process.returncode = 0  # reaped by `reap`, not by subprocess


def is_dead(pid: int) -> bool:
    """Return whether a child has ended, reaped or not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to a child's whole group, or to it alone where it has none yet."""
    for send in (os.killpg, os.kill):
        try:
            send(pid, number)
        except (ProcessLookupError, PermissionError):
            continue
        return
