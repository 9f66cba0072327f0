"""Environment variables, exit codes and /status keys that operator and trainer share.

The trainer has a copy (`dtj_trainer.contract`), and a test compares both. Neither imports the other.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Final

PORT: Final = 9401
"""HTTP port of a trainer pod."""

SIGNATURE_HEADER: Final = "X-DTJ-Signature"
"""Header of every POST, and of what supervisors say to each other."""

TERMINATION_BYTES: Final = 4000
"""Upper bound of the termination message; the kubelet cuts at 4096."""

TERMINATION_KEYS: Final = (
    "class",
    "exitCode",
    "step",
    "checkpointStep",
    "totalSteps",
    "epoch",
    "stepsPerSecond",
    "examplesPerSecond",
    "loss",
    "metrics",
    "restarts",
    "recoveries",
    "exception",
    "message",
)

PROGRESS_KEYS: Final = (
    "step",
    "totalSteps",
    "epoch",
    "stepsPerSecond",
    "examplesPerSecond",
    "loss",
    "metrics",
    "lastCheckpointStep",
    "updatedAt",
)
"""Keys of `status.progress`, and of /status."""

STATUS_KEYS: Final = (*PROGRESS_KEYS, "role", "index", "attempt", "job", "phase", "restarts", "recoveries")
"""Keys of GET /status."""


class Environment(StrEnum):
    """The environment variables that the operator sets in the main container."""

    JOB = "DTJ_JOB"
    UID = "DTJ_UID"
    NAMESPACE = "DTJ_NAMESPACE"
    ROLE = "DTJ_ROLE"
    INDEX = "DTJ_INDEX"
    ATTEMPT = "DTJ_ATTEMPT"
    STRATEGY = "DTJ_STRATEGY"
    CHECKPOINT = "DTJ_CHECKPOINT"
    GPUS = "DTJ_GPUS"


class ExitClass(StrEnum):
    """The `class` in a trainer's termination message: how it ended."""

    DONE = "done"
    USER_ERROR = "user-error"
    PREFLIGHT_FAILED = "preflight-failed"
    PEER_LOST = "peer-lost"
    STALLED = "stalled"
    FENCED = "fenced"
    KILLED = "killed"
    OUT_OF_MEMORY = "out-of-memory"
    PREEMPTED = "preempted"


EXIT_DONE: Final = 0
EXIT_ERROR: Final = 1
EXIT_PREEMPTED: Final = 42
"""Preempted with state saved."""
EXIT_RETRY: Final = 75
"""A peer or the infrastructure failed; the trainer asks for a restart (EX_TEMPFAIL of sysexits.h)."""
EXIT_KILLED: Final = 137
EXIT_TERMINATED: Final = 143
"""Preempted, nothing saved."""


def job_hash(uid: str) -> str:
    """Return what stands for a job in public: 16 hex digits of the SHA-256 of its UID; empty without one.

    The UID itself is the secret of the job's pods.
    """
    return hashlib.sha256(uid.encode()).hexdigest()[:16] if uid else ""
