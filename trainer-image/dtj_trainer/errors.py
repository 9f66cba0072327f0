"""The trainer's errors, one class for each way to end (api.md, table of exit classes)."""

from dtj_trainer.contract import EXIT_PREEMPTED, EXIT_RETRY, EXIT_TERMINATED, ExitClass, TrainerError

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


class UserError(TrainerError):
    """The program asks for something impossible, or its numbers went bad (a NaN loss)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitClass.USER_ERROR)


class PreflightFailed(TrainerError):
    """Input or configuration is wrong; trying again changes nothing."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitClass.PREFLIGHT_FAILED)


class PeersNotReady(TrainerError):
    """A peer did not resolve or answer in time, or sees other data, at start; trying again may help."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitClass.PREFLIGHT_FAILED, EXIT_RETRY)


class PeerLost(TrainerError):
    """Another process of the job went away."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitClass.PEER_LOST)


class Fenced(TrainerError):
    """A newer attempt of the job owns the checkpoint directory; this process must write no more."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitClass.FENCED)


class Preempted(TrainerError):
    """Asked to leave (SIGTERM), and the state is saved."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitClass.PREEMPTED, EXIT_PREEMPTED)


class PreemptedUnsaved(TrainerError):
    """Asked to leave, with nothing to save or nowhere to save it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitClass.PREEMPTED, EXIT_TERMINATED)
