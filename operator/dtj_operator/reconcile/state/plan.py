"""What to do about one job: the outcome of `decide`, carried out by the runtime.

Order of execution: the status is persisted, then events are put in line, then deletions, then
creations. Nothing after the status write is touched if that write fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dtj_operator.api.status import JobStatus


class Verdict(Enum):
    """The answer of a policy that has one; others answer None, and the next one is asked."""

    SETTLED = auto()
    """Nothing that comes later in the list matters in this pass."""


class Urgency(StrEnum):
    """When a changed status has to be written."""

    NOW = "now"
    SOON = "soon"
    """Only counts changed: the runtime may hold the write for a second."""


@dataclass(frozen=True, slots=True)
class CreatePod:
    """One pod for one replica, built by `builders.pod`."""

    role: str
    index: int
    attempt: int
    avoid: tuple[str, ...] = ()
    """Nodes that are given up, which the scheduler may not know yet."""


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Deletion with a UID precondition; `force` means grace period 0."""

    name: str
    uid: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class CreateService:
    """The headless service, built by `build.service`."""


@dataclass(frozen=True, slots=True)
class DeleteService:
    """Deletion with a UID precondition."""

    uid: str


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """TTL: the job itself goes (background propagation)."""

    uid: str


@dataclass(frozen=True, slots=True)
class Event:
    """A Kubernetes event on the job, posted once, after the status write succeeded."""

    type: str
    """Normal or Warning."""
    reason: str
    message: str


Action = CreatePod | DeletePod | CreateService | DeleteService | DeleteJob


@dataclass(frozen=True, slots=True)
class Plan:
    """Decision out. `status` None: hands off, write nothing."""

    status: JobStatus | None
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    urgency: Urgency = Urgency.NOW
    next_check: datetime | None = None
    """Look again at this time even if nothing happens; None: only on change."""
