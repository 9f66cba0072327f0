"""The exceptions of a training, one class for each way to end."""

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
