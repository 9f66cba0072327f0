"""What trainer and operator agree on, as the trainer sees it.

The operator keeps its own copy (`dtj_operator.api.trainer_contract`); a test holds both equal.
Standard library only: the supervisor imports this.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

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
    """The variables that the operator sets in the main container."""

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
    """The class of a trainer's exit, in the termination message."""

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
EXIT_USAGE: Final = 2
"""Of a command that `dtj-run` does not know, inside a pod that runs already."""
EXIT_PREEMPTED: Final = 42
"""Preempted with state saved."""
EXIT_RETRY: Final = 75
"""A peer or the infrastructure: start me again (EX_TEMPFAIL of sysexits.h)."""
EXIT_KILLED: Final = 137
EXIT_TERMINATED: Final = 143
"""Preempted, nothing saved."""
EXIT_INTERNAL_ERROR: Final = 170
"""An error in the supervisor itself; beyond the codes of all signals."""

DEFAULT_EXIT_CODES: Final = {
    ExitClass.DONE: EXIT_DONE,
    ExitClass.USER_ERROR: EXIT_ERROR,
    ExitClass.PREFLIGHT_FAILED: EXIT_ERROR,
    ExitClass.PEER_LOST: EXIT_RETRY,
    ExitClass.STALLED: EXIT_RETRY,
    ExitClass.FENCED: EXIT_RETRY,
    ExitClass.KILLED: EXIT_KILLED,
    ExitClass.OUT_OF_MEMORY: EXIT_KILLED,
    ExitClass.PREEMPTED: EXIT_TERMINATED,
}
"""The code of each class where nothing more exact is known."""


class ExitStatus(NamedTuple):
    """The exit of a process, or of its container."""

    exit_class: str
    exit_code: int
    message: str = ""
    """One line without a newline; empty when all went well."""


def job_hash(uid: str) -> str:
    """Return what stands for a job in public: 16 hex digits of the SHA-256 of its UID; empty without one.

    The UID itself is the secret of the job's pods.
    """
    return hashlib.sha256(uid.encode()).hexdigest()[:16] if uid else ""


def job_of(record: Mapping[str, object]) -> str:
    """Return the job that wrote a file of the checkpoint directory: `job`; earlier versions wrote its UID, as `uid`."""
    return str(record["job"]) if "job" in record else job_hash(str(record.get("uid", "")))
