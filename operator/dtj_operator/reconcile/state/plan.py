"""The plan for one job, which `decide` returns and the plan executor carries out.

Order of execution: the status is persisted, then events are queued, then deletions, then
creations. Nothing after the status write is touched if that write fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING

from dtj_operator.api.enums import EventReason
from dtj_operator.reconcile.state.snapshot import TERMINAL

if TYPE_CHECKING:
    from dtj_operator.api.enums import Role
    from dtj_operator.api.job import Job
    from dtj_operator.api.status import JobStatus
    from dtj_operator.reconcile.state.replicas import Replica
    from dtj_operator.reconcile.state.snapshot import Pod, Service


class Verdict(Enum):
    """The answer of a policy that has one; others answer None, and the next one is asked."""

    SETTLED = auto()
    """No later policy matters in this pass."""


class StatusWrite(StrEnum):
    """The urgency of the write of a changed status."""

    NOW = "now"
    DELAYED = "delayed"
    """Only counts changed: the write may wait a second for others."""


@dataclass(frozen=True, slots=True)
class CreatePod:
    """The creation of the pod of one replica, built by `builders.pod`."""

    role: str
    index: int
    attempt: int
    avoid: tuple[str, ...] = ()
    """Nodes that are given up, or reject such pods; the scheduler may not know that."""


@dataclass(frozen=True, slots=True)
class DeletePod:
    """The deletion of a pod with a UID precondition; `force` means grace period 0."""

    name: str
    uid: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class CreateService:
    """The creation of the headless service, built by `builders.service`."""


@dataclass(frozen=True, slots=True)
class DeleteService:
    """The deletion of the service with a UID precondition."""

    uid: str


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """The deletion of the job itself, after its TTL (background propagation)."""

    uid: str


@dataclass(frozen=True, slots=True)
class Event:
    """A Kubernetes event on the job, posted once, after the status write succeeded."""

    type: str
    """Normal or Warning."""
    reason: str
    message: str
    group: str = ""
    """Events of one reason and group say similar things, and are joined when there are many; empty: never."""


Action = CreatePod | DeletePod | CreateService | DeleteService | DeleteJob


@dataclass(frozen=True, slots=True)
class Plan:
    """The result of `decide`. `status` None: this operator must not touch the job."""

    status: JobStatus | None
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    write: StatusWrite = StatusWrite.NOW
    requeue_at: datetime | None = None
    """Look again at this time even if nothing happens; None: only on change."""

    @classmethod
    def nothing(cls) -> Plan:
        """Return the plan that leaves a job alone."""
        return cls(status=None)


class PlanBuilder:
    """A collector of what the policies of one pass want to do."""

    __slots__ = ("_actions", "_events", "_requeue_at", "creation_blocked")

    def __init__(self) -> None:
        """Start with nothing to do."""
        self._actions: list[Action] = []
        self._events: list[Event] = []
        self._requeue_at: datetime | None = None
        self.creation_blocked = ""
        """Why no pod may be created in this pass; empty when pods may be."""

    @property
    def creates_pods(self) -> bool:
        """Whether a pod is to be created."""
        return any(isinstance(action, CreatePod) for action in self._actions)

    def note(self, reason: EventReason, message: str) -> None:
        """Post a Normal event."""
        self._events.append(Event("Normal", str(reason), message))

    def warn(self, reason: EventReason, message: str) -> None:
        """Post a Warning event."""
        self._events.append(Event("Warning", str(reason), message))

    def report_failed_pod(self, role: Role, cause: str, message: str) -> None:
        """Post a Warning event about a failed pod; there may be a thousand of one role and cause."""
        self._events.append(Event("Warning", str(EventReason.POD_FAILED), message, f"{role} {cause}"))

    def requeue_at(self, moment: datetime) -> None:
        """Look again at that time, or earlier."""
        if self._requeue_at is None or moment < self._requeue_at:
            self._requeue_at = moment

    def block_creation(self, reason: str) -> None:
        """Create no pod in this pass."""
        self.creation_blocked = reason

    def create_pod(self, replica: Replica, attempt: int, avoid: tuple[str, ...]) -> None:
        """Create the pod of a replica, on other nodes than those to avoid."""
        self._actions.append(CreatePod(replica.role, replica.index, attempt, avoid))

    def delete_pod(self, pod: Pod, *, node_lost: bool) -> bool:
        """Delete a pod of ours. Returns whether its name is free right after.

        The API server removes a pod at once that has ended or was never bound, and one that is
        deleted by force. That is what happens to pods on a lost node, and to a terminating pod
        that has ended: its kubelet would take up to a second more to tidy up and let the name go.
        What a finalizer holds is deleted once: no second deletion, by force or not, makes it go.
        """
        force = node_lost or (pod.deleted_at is not None and pod.over)
        if pod.deleted_at is not None and (pod.finalizers or not force):
            return False
        self._actions.append(DeletePod(pod.name, pod.uid, force))
        return not pod.finalizers and (force or not pod.node or pod.phase in TERMINAL)

    def create_service(self) -> None:
        """Create the headless service."""
        self._actions.append(CreateService())

    def delete_service(self, service: Service) -> None:
        """Delete the headless service."""
        self._actions.append(DeleteService(service.uid))

    def delete_job(self, job: Job) -> None:
        """Delete the job itself."""
        self._actions.append(DeleteJob(job.uid))

    def build(self, status: JobStatus, write: StatusWrite) -> Plan:
        """Return the plan: the status to persist, then actions and events in their order."""
        return Plan(status, tuple(self._actions), tuple(self._events), write, self._requeue_at)
