"""Whether the end of a training process means a restart in place or the end of the container; counts and backoff."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dtj_trainer.contract import EXIT_PREEMPTED, EXIT_RETRY, EXIT_TERMINATED, ExitClass, ExitStatus
from dtj_trainer.ipc.messages import ProcessExit
from dtj_trainer.supervisor.training_process import KillReason, TrainingProcess

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
        return _killed(number, oom=number == signal.SIGKILL and oom_kills > process.oom_kills)
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
    return Restart("peer-lost", message, ExitStatus(ExitClass.PEER_LOST, EXIT_RETRY, message))


def _stalled(message: str) -> Restart:
    return Restart("stalled", message, ExitStatus(ExitClass.STALLED, EXIT_RETRY, message))


def _killed(number: int, *, oom: bool) -> Restart | ExitStatus:
    if oom:
        text = "the kernel killed the program for want of memory; raise the memory limit or lower the batch size"
        return ExitStatus(ExitClass.OUT_OF_MEMORY, 128 + signal.SIGKILL, text)
    text = f"the program was killed by {signal.Signals(number).name}"
    return Restart("killed", text, ExitStatus(ExitClass.KILLED, 128 + number, text))


class RestartCounter:
    """A counter of restarts, with the limit and the backoff of the next one."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
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

    def count(self, process: TrainingProcess, now: float) -> float:
        """Count the restart of a process; returns how many seconds to wait before it."""
        self.used += 1
        self.total += 1
        quick = process.kill_reason is None and now - (process.started_at or now) < QUICK_SECONDS
        self._quick = self._quick + 1 if quick else 0
        return min(FIRST_BACKOFF * 2 ** (self._quick - 1), LAST_BACKOFF) if quick else 0.0
