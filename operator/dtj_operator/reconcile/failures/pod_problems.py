"""What keeps pods from running that nobody of the job is to blame for, and that heals by itself.

Each is a reason of `Running=False`; the sentence keeps the words that were seen first, because
the kubelet and the scheduler never say the same thing twice. A refused write rests twice as long
after each refusal of its kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dtj_operator.api.enums import Reason, Role

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.blocked_writes import BlockedWrite
    from dtj_operator.reconcile.state.replicas import Replica
    from dtj_operator.reconcile.state.scope import ReconcileScope
    from dtj_operator.reconcile.state.snapshot import Pod


PULL_FAILURES = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
CONFIG_FAILURES = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})


@dataclass(frozen=True, slots=True)
class PodProblem:
    """One thing in the way."""

    reason: Reason
    subject: str
    """`pod train-worker-1`: the beginning of the sentence."""
    words: str

    @property
    def sentence(self) -> str:
        """For people."""
        return f"{self.subject}: {self.words}"


def find_pod_problem(scope: ReconcileScope) -> PodProblem | None:
    """The first thing in the way of those who train, and of the service."""
    aside = {scope.pod_name(replica) for replica in scope.records if replica.role is Role.EVALUATOR}
    return _first(
        scope,
        [blocked for blocked in scope.snapshot.blocked_writes if blocked.target not in aside],
        [replica for replica in scope.records if replica.role is not Role.EVALUATOR],
    )


def find_side_problem(scope: ReconcileScope) -> PodProblem | None:
    """The first thing in the way of the service or of an evaluator, where all those who train are up."""
    slots = [replica for replica in scope.records if replica.role is Role.EVALUATOR]
    names = {scope.name, *map(scope.pod_name, slots)}
    return _first(scope, [blocked for blocked in scope.snapshot.blocked_writes if blocked.target in names], slots)


def _first(scope: ReconcileScope, blocked_writes: list[BlockedWrite], slots: list[Replica]) -> PodProblem | None:
    for blocked in blocked_writes:
        return PodProblem(Reason(blocked.kind.value), blocked.target, blocked.message)
    wanted = [replica for replica in slots if replica not in scope.completed]
    return _name_taken(scope, wanted) or _stuck(scope, wanted)


def _name_taken(scope: ReconcileScope, slots: list[Replica]) -> PodProblem | None:
    service = scope.snapshot.service
    if service is not None and service.owner_uid != scope.job.uid:
        return PodProblem(
            Reason.NAME_TAKEN,
            f"service {service.name}",
            "exists and is not this job's; delete it, or use another job name",
        )
    for replica in slots:
        pod = scope.foreign.get(scope.pod_name(replica)) if scope.foreign else None
        if pod is None:
            continue
        words = (
            "is still terminating; it belongs to an earlier job of this name"
            if pod.deleted_at
            else "exists and is not this job's; delete it, or use another job name"
        )
        return PodProblem(Reason.NAME_TAKEN, f"pod {pod.name}", words)
    return None


def _stuck(scope: ReconcileScope, slots: list[Replica]) -> PodProblem | None:
    for replica in slots:
        pod = scope.current(replica)
        if pod is not None and not pod.ready and pod.phase in {"Pending", "Running"}:
            found = _waiting(pod)
            if found:
                return found
    return None


def _waiting(pod: Pod) -> PodProblem | None:
    subject = f"pod {pod.name}"
    if pod.unschedulable:
        return PodProblem(Reason.UNSCHEDULABLE, subject, pod.unschedulable)
    for container in pod.containers:
        words = container.waiting_message or container.waiting_reason
        if container.waiting_reason in PULL_FAILURES:
            return PodProblem(Reason.IMAGE_PULL_FAILED, subject, words)
        if container.waiting_reason in CONFIG_FAILURES:
            return PodProblem(Reason.CONTAINER_CONFIG, subject, words)
    return None
