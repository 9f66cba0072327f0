"""The exceptions that a training ends with, one class for each cause."""

from dtj_trainer.errors import (
    Fenced,
    PeerLost,
    PeersNotReady,
    Preempted,
    PreemptedUnsaved,
    PreflightFailed,
    TrainerError,
    UserError,
)

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
