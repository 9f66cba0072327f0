"""A forked process: its connection, its pid, its kill reason and its exit message."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from dtj_trainer.ipc.connection import Connection, connection_pair
from dtj_trainer.ipc.messages import Command, Message, ProcessExit, StartOrder
from dtj_trainer.supervisor.process_pool import ProcessPool, is_dead, kill


class KillReason(StrEnum):
    """The reason why the supervisor killed a process."""

    SUPERSEDED = "superseded"
    """A peer has left its cluster."""
    STALLED = "stalled"
    VALIDATION_STALLED = "validation-stalled"
    CALLBACK_HANGS = "callback-hangs"
    SAVE_HANGS = "save-hangs"
    FINISH_HANGS = "finish-hangs"
    """The export, or the note that the job is done, does not end."""
    SERVER_SILENT = "server-silent"
    DISMISSED = "dismissed"
    """A standby whose peers' standbys are gone."""


@dataclass(slots=True)
class TrainingProcess:
    """A process that trains, serves, or stands by."""

    number: int
    connection: Connection
    oom_kills: int
    """The cgroup's counter when it was asked for."""
    pid: int | None = None
    started_at: float | None = None
    """When its program was started."""
    kill_reason: KillReason | None = None
    exit: ProcessExit | None = None
    """How it said that it ends."""
    exit_reported_at: float | None = None
    """When it said so; what is left to do is what the program does at its exit."""
    prepared: bool = False
    """It has come to where a standby waits."""
    standby: bool = False
    """It has formed its cluster ahead of time."""
    order: StartOrder | None = None
    """What it was asked to run."""
    side: int = 0
    """Which of its job's two clusters it is in: 0, that of TF_CONFIG; 1, that of the standbys' ports."""

    @classmethod
    def spawn(cls, pool: ProcessPool, order: StartOrder, oom_kills: int, *, side: int = 0) -> TrainingProcess:
        """Ask the pool for a process."""
        connection, end = connection_pair()
        return cls(
            pool.spawn(order, end),
            connection,
            oom_kills,
            standby=order.standby,
            order=order,
            side=side,
        )

    @property
    def started(self) -> bool:
        """Whether the program was started."""
        return self.started_at is not None

    @property
    def running(self) -> bool:
        """Whether the process exists, reaped or not yet: it has not ended by itself."""
        return self.pid is not None and not is_dead(self.pid)

    def messages(self) -> Iterator[Message]:
        """Yield its messages; when it has closed its connection, close ours too: the pool reports its exit."""
        with contextlib.suppress(OSError):  # BlockingIOError: that is all for now
            while (message := self.connection.receive()) is not None:
                yield message
            self.connection.close()

    def tell(self, command: Command) -> None:
        """Send a command, unless the process has closed its end or is too busy to listen."""
        self.connection.send(command, patience=0.0)

    def kill(self, reason: KillReason | None = None) -> None:
        """Kill it with its whole group, if it exists."""
        self.kill_reason = self.kill_reason or reason
        if self.pid is not None:
            kill(self.pid)
