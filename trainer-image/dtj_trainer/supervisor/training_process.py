"""The life of one child: what is known of it, and what its end means.

The verdicts are pure: the supervisor's loop carries them out.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from dtj_trainer.contract import EXIT_PREEMPTED, EXIT_RETRY, EXIT_TERMINATED, ExitClass
from dtj_trainer.ipc.connection import Connection
from dtj_trainer.ipc.messages import Command, Message, ProcessExit
from dtj_trainer.supervisor.termination_message import Ending


class Sentence(StrEnum):
    """Why we killed a child ourselves."""

    OVERTAKEN = "overtaken"
    """Its cluster is no more."""
    STALLED = "stalled"
    SAVING = "saving"
    """A save does not end."""
    FINISHING = "finishing"
    """The export, or the note that the job is done, does not end."""
    SILENT = "silent"
    """Its server does not answer."""
    DISMISSED = "dismissed"
    """A standby whose peers' standbys are no more."""


@dataclass(slots=True)
class Child:
    """One forked process."""

    number: int
    connection: Connection
    oom_kills: int
    """The cgroup's counter when it was forked."""
    pid: int | None = None
    released_at: float | None = None
    sentence: Sentence | None = None
    exit: ProcessExit | None = None
    """How it said that it ends."""
    ended_at: float | None = None
    """When it gave it; what is left to do is what the program does at its exit."""
    prepared: bool = False
    """It has come to where a standby waits."""
    standby: bool = False
    """It has formed its cluster ahead of time."""
    side: int = 0
    """Which of its job's two clusters it is in: 0, that of TF_CONFIG; 1, that of the standbys' ports."""

    @property
    def released(self) -> bool:
        """Whether the program was let go."""
        return self.released_at is not None

    def messages(self) -> Iterator[Message]:
        """Yield what it has said; once it has closed its end, ours is closed too: its exit is told by the nursery."""
        with contextlib.suppress(OSError):  # BlockingIOError: that is all for now
            while (message := self.connection.receive()) is not None:
                yield message
            self.connection.close()

    def say(self, message: Command) -> None:
        """Tell it, unless it has closed its end or is too busy to listen."""
        self.connection.send(message, patience=0.0)


@dataclass(frozen=True, slots=True)
class Restart:
    """Start again in place; `spent` is how the pod ends when no restarts are left."""

    cause: str
    message: str
    spent: Ending


Verdict = Restart | Ending


def judge(  # noqa: PLR0911 - a table, first match wins
    child: Child, status: int, *, oom_kills: int, serves: bool, member: bool
) -> Verdict:
    """What the end of a child means, unless we were told to stop. `status` is waitpid's."""
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if child.sentence is Sentence.OVERTAKEN:
        return _peer_lost("the cluster forms anew")
    if child.sentence is Sentence.STALLED:
        return _stalled("no step was made for too long")
    if child.sentence is Sentence.SAVING:
        return _stalled(
            "a checkpoint was not saved in the time for it (--save-seconds); look at the volume or store of the "
            "checkpoint directory"
        )
    if child.sentence is Sentence.FINISHING:
        return _stalled(
            "the training is over and its export was not written in the time for it (--save-seconds); look at the "
            "volume or store that it goes to"
        )
    if child.sentence is Sentence.SILENT:
        return _stalled("the TensorFlow server did not answer")
    if child.exit is not None:  # also where a signal ended what libraries do at exit: peers have been told of it
        code = child.exit.exit_code if number else os.waitstatus_to_exitcode(status)
        return _as_reported(child.exit, code, serves=serves, member=member)
    if number:
        return _killed(number, oom=number == signal.SIGKILL and oom_kills > child.oom_kills)
    code = os.waitstatus_to_exitcode(status)
    if code == 0 and not serves:
        return Ending(ExitClass.DONE, 0)
    if code == EXIT_RETRY:
        return _peer_lost(f"the program ended with exit code {EXIT_RETRY}")
    if code == 0:
        return _killed(signal.SIGKILL, oom=False)
    return Ending(ExitClass.USER_ERROR, code, f"the program ended with exit code {code}")


def judge_stopped(child: Child, *, managed: bool) -> Ending:
    """What the end of a child means after SIGTERM."""
    if child.exit is not None and child.exit.exit_class == ExitClass.DONE and (managed or not child.exit.explicit):
        return Ending(ExitClass.DONE, 0)
    if child.exit is not None and child.exit.exit_code == EXIT_PREEMPTED:
        return Ending(ExitClass.PREEMPTED, EXIT_PREEMPTED, child.exit.message or "told to stop; the state is saved")
    return Ending(ExitClass.PREEMPTED, EXIT_TERMINATED, "told to stop (SIGTERM); nothing was saved on leaving")


def _as_reported(reported: ProcessExit, code: int, *, serves: bool, member: bool) -> Verdict:
    exit_class, message = reported.exit_class, reported.message
    if exit_class == ExitClass.DONE and not serves:
        return Ending(ExitClass.DONE, 0)
    if exit_class == ExitClass.PEER_LOST:
        return _peer_lost(message)
    if exit_class == ExitClass.STALLED:
        return _stalled(message)
    if member and (exit_class == ExitClass.PREEMPTED or code == EXIT_PREEMPTED):
        text = "a peer was told to stop; the state is saved"
        return Restart("preempted", text, Ending(ExitClass.PEER_LOST, EXIT_RETRY, text))
    return Ending(exit_class, code, message, reported.exception)


def _peer_lost(message: str) -> Restart:
    return Restart("peer-lost", message, Ending(ExitClass.PEER_LOST, EXIT_RETRY, message))


def _stalled(message: str) -> Restart:
    return Restart("stalled", message, Ending(ExitClass.STALLED, EXIT_RETRY, message))


def _killed(number: int, *, oom: bool) -> Verdict:
    if oom:
        text = "the kernel killed the program for want of memory; raise the memory limit or lower the batch size"
        return Ending(ExitClass.OUT_OF_MEMORY, 128 + signal.SIGKILL, text)
    text = f"the program was killed by {signal.Signals(number).name}"
    return Restart("killed", text, Ending(ExitClass.KILLED, 128 + number, text))
