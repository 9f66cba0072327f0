"""Whether the end of a training process means a restart in place or the end of the container; counts, backoff,
recoveries.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.contract import EXIT_PREEMPTED, EXIT_RETRY, EXIT_TERMINATED, ExitClass, ExitStatus
from dtj_trainer.ipc.messages import ProcessExit
from dtj_trainer.supervisor.membership import Membership
from dtj_trainer.supervisor.program import own_strategy
from dtj_trainer.supervisor.training_process import KillReason, TrainingProcess

PEER_LOST: Final = "peer-lost"
"""The cause of a restart that follows from what happened to a peer."""
CAUSES: Final = ("killed", PEER_LOST, "stalled", "preempted")
"""All causes of a restart."""
QUICK_SECONDS: Final = 1.0
"""A process that ends sooner has failed at its start."""
FIRST_BACKOFF: Final = 0.25
LAST_BACKOFF: Final = 10.0
RESET_SECONDS: Final = 600.0
"""So much progress resets the count of restarts."""
_STALLS: Final[Mapping[KillReason, str]] = {
    KillReason.STALLED: "no step was made for too long",
    KillReason.VALIDATION_STALLED: "no batch of the validation data was evaluated for too long",
    KillReason.CALLBACK_HANGS: (
        "a callback did not return in the time for it (--save-seconds); look at what your callbacks wait for"
    ),
    KillReason.SAVE_HANGS: (
        "a checkpoint was not saved in the time for it (--save-seconds); look at the volume or store of the checkpoint "
        "directory"
    ),
    KillReason.FINISH_HANGS: (
        "the training is over and its export was not written in the time for it (--save-seconds); look at the volume "
        "or store that it goes to"
    ),
    KillReason.SERVER_SILENT: "the TensorFlow server did not answer",
}


@dataclass(frozen=True, slots=True)
class Restart:
    """A decision to restart in place."""

    cause: str
    """The label of the metric."""
    message: str
    when_used_up: ExitStatus
    """How the container ends when no restarts are left."""

    @property
    def own_cause(self) -> str:
        """The cause, if it is not what happened to a peer."""
        return "" if self.cause == PEER_LOST else self.cause


def decide_restart(  # noqa: PLR0911 - a table, first match wins
    process: TrainingProcess, status: int, *, oom_kills: int, serves: bool, collective: bool
) -> Restart | ExitStatus:
    """Return what the end of a process means, unless the container was told to stop. `status` is waitpid's."""
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if process.kill_reason is KillReason.SUPERSEDED:
        return _peer_lost("the cluster forms again")
    if process.kill_reason is not None and process.kill_reason in _STALLS:
        return _stalled(_STALLS[process.kill_reason])
    if process.exit is not None:  # also where a signal ended what libraries do at exit: peers have been told of it
        code = process.exit.exit_code if number else os.waitstatus_to_exitcode(status)
        return _as_reported(process.exit, code, serves=serves, collective=collective)
    if number:
        oom = number == signal.SIGKILL and oom_kills > process.oom_kills
        order = process.order if number == signal.SIGSEGV else None
        return _killed(number, oom=oom, own_strategy="" if order is None else own_strategy(order))
    code = os.waitstatus_to_exitcode(status)
    if code == EXIT_RETRY:
        return _peer_lost(f"the program ended with exit code {EXIT_RETRY}")
    if code == 0:
        return _killed(signal.SIGKILL, oom=False) if serves else ExitStatus(ExitClass.DONE, 0)
    return ExitStatus(ExitClass.USER_ERROR, code, f"the program ended with exit code {code}")


def exit_after_sigterm(reported: ProcessExit | None, *, managed: bool, saved: bool) -> ExitStatus:
    """Return what the end of a process means after SIGTERM; `saved`: its trainings had finished, and are saved."""
    if reported is not None and reported.exit_class == ExitClass.DONE and (managed or not reported.explicit):
        return ExitStatus(ExitClass.DONE, 0)
    if reported is not None and reported.exit_code == EXIT_PREEMPTED:
        return ExitStatus(ExitClass.PREEMPTED, EXIT_PREEMPTED, reported.message or "told to stop; the state is saved")
    if saved:
        text = "told to stop (SIGTERM) after the last training, before the program had ended; the state is saved"
        return ExitStatus(ExitClass.PREEMPTED, EXIT_PREEMPTED, text)
    return ExitStatus(ExitClass.PREEMPTED, EXIT_TERMINATED, "told to stop (SIGTERM); nothing was saved on leaving")


def _as_reported(reported: ProcessExit, code: int, *, serves: bool, collective: bool) -> Restart | ExitStatus:
    exit_class, message = reported.exit_class, reported.message
    if exit_class == ExitClass.DONE and not serves:
        return ExitStatus(ExitClass.DONE, 0)
    if exit_class == ExitClass.PEER_LOST:
        return _peer_lost(message)
    if exit_class == ExitClass.STALLED:
        return _stalled(message)
    if collective and (exit_class == ExitClass.PREEMPTED or code == EXIT_PREEMPTED):
        text = "a peer was told to stop; the state is saved"
        return Restart("preempted", text, ExitStatus(ExitClass.PEER_LOST, EXIT_RETRY, text))
    return ExitStatus(exit_class, code, message)


def _peer_lost(message: str) -> Restart:
    return Restart(PEER_LOST, message, ExitStatus(ExitClass.PEER_LOST, EXIT_RETRY, message))


def _stalled(message: str) -> Restart:
    return Restart("stalled", message, ExitStatus(ExitClass.STALLED, EXIT_RETRY, message))


def _killed(number: int, *, oom: bool, own_strategy: str = "") -> Restart | ExitStatus:
    if oom:
        text = "the kernel killed the program for want of memory; raise the memory limit or lower the batch size"
        return ExitStatus(ExitClass.OUT_OF_MEMORY, 128 + signal.SIGKILL, text)
    text = f"the program was killed by {signal.Signals(number).name}"
    if own_strategy:
        text += (
            f", perhaps because it builds a strategy of its own beside the job's ({own_strategy}); remove it and its "
            "scope: dtj.init() builds the strategy"
        )
    return Restart("killed", text, ExitStatus(ExitClass.KILLED, 128 + number, text))


class Recoveries:
    """The recoveries in place that this pod took part in: from the loss of a process until all train again."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._count = 0
        self._last: Mapping[str, object] | None = None
        self._lost_at: float | None = None
        """Since when training is interrupted."""
        self._cause = ""
        self._pods: Mapping[Task, str] = {}
        """The incarnations of the peers at that time."""

    def status(self) -> Mapping[str, object]:
        """Return what /status and the termination message say."""
        return {"count": self._count, "last": self._last}

    def begin(self, cause: str, now: float) -> None:
        """Take note that the training process was lost, unless a recovery goes on already."""
        if self._lost_at is None:
            self._lost_at, self._cause = now, cause
            self._pods = {task: peer.incarnation for task, peer in self._membership.known_peers.items()}

    def end(self, now: float, wall: float) -> None:
        """Take note that steps are made, in which all peers of a collective take part; `wall` is Unix time.

        If a peer is a new pod, that was no recovery in place.
        """
        if self._lost_at is None:
            return
        lost_at, self._lost_at = self._lost_at, None
        peers = self._membership.known_peers
        if any(task in peers and peers[task].incarnation != pod for task, pod in self._pods.items()):
            return
        me = self._membership.me
        failed = [one for one in (me, *peers.values()) if one.generation == me.generation and one.cause]
        who = min(failed, key=lambda one: one.task, default=me)
        self._count += 1
        self._last = {
            "time": f"{datetime.fromtimestamp(wall, UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
            "seconds": round(now - lost_at, 3),
            "cause": who.cause or self._cause,
            "role": who.task.role,
            "index": who.task.index,
        }


class RestartCounter:
    """A counter of restarts, with the limit and the backoff of the next one."""

    def __init__(self, limit: int, membership: Membership) -> None:
        self.limit = limit
        self.recoveries = Recoveries(membership)
        self.total = 0
        """All restarts of this container."""
        self.used = 0
        """Those since training made much progress."""
        self._quick = 0
        """How many processes in a row failed at their start."""

    @property
    def used_up(self) -> bool:
        """Whether no restart is left."""
        return self.used >= self.limit

    def reset(self) -> None:
        """Allow all restarts again: training has made much progress."""
        self.used = 0

    def count(self, process: TrainingProcess, cause: str, now: float) -> float:
        """Count the restart of a process; returns how many seconds to wait before it."""
        self.recoveries.begin(cause, now)
        self.used += 1
        self.total += 1
        quick = process.kill_reason is None and now - (process.started_at or now) < QUICK_SECONDS
        self._quick = self._quick + 1 if quick else 0
        return min(FIRST_BACKOFF * 2 ** (self._quick - 1), LAST_BACKOFF) if quick else 0.0
