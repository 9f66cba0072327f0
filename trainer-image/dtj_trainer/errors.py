"""The trainer's exceptions, one class for each way to end.

The exit classes are in contract.py; exit_status.py maps any other exception to one of them.
"""

import math

from dtj_trainer.contract import DEFAULT_EXIT_CODES, EXIT_PREEMPTED, EXIT_RETRY, EXIT_TERMINATED, ExitClass

__all__ = [
    "Fenced",
    "PeerLost",
    "PeersNotReady",
    "Preempted",
    "PreemptedUnsaved",
    "PreflightFailed",
    "TrainerError",
    "UserError",
]
"""The classes, which `dtj.errors` shows too."""


class TrainerError(Exception):
    """An error that is explained in one sentence and shows no traceback.

    `dtj-run` turns it into the `dtj: …` line, the termination message and the exit code.
    """

    def __init__(
        self,
        message: str,
        exit_class: ExitClass = ExitClass.PREFLIGHT_FAILED,
        exit_code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.exit_class = exit_class
        self.exit_code = DEFAULT_EXIT_CODES[exit_class] if exit_code is None else exit_code


class UserError(TrainerError):
    """The program asks for something impossible, or its loss is NaN or infinite."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitClass.USER_ERROR)


class PreflightFailed(TrainerError):
    """Input or configuration is wrong; a restart does not help."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitClass.PREFLIGHT_FAILED)


class PeersNotReady(TrainerError):
    """At the start, a peer did not resolve or answer in time, or sees other data; a restart may help."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitClass.PREFLIGHT_FAILED, EXIT_RETRY)


class PeerLost(TrainerError):
    """Another process of the job, or the storage, is unreachable; a restart helps."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitClass.PEER_LOST)


class Fenced(TrainerError):
    """A newer attempt of the job owns the checkpoint directory; this process must not write any more."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitClass.FENCED)


class Preempted(TrainerError):
    """SIGTERM was received, and the state is saved."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitClass.PREEMPTED, EXIT_PREEMPTED)


class PreemptedUnsaved(TrainerError):
    """SIGTERM was received, and there is nothing to save or nowhere to save it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitClass.PREEMPTED, EXIT_TERMINATED)


def nonfinite_loss(loss: float, step: int) -> UserError:
    """Return the error of a loss that is NaN or infinite."""
    return UserError(
        f"the loss is {'NaN' if math.isnan(loss) else 'infinite'} at step {step}; "
        "lower the learning rate, clip gradients (clip_norm=) or look at the data of that step"
    )


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, to be put into a sentence; its class where it says nothing."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
