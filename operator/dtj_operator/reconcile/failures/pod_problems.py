"""Reasons why pods do not start: no image, no node, a taken name, a refused creation.

Nothing of the job has failed, and each may pass by itself. Each is a reason of `Running=False`; the
sentence keeps the words that were seen first, because the kubelet and the scheduler never say the
same thing twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dtj_operator.api.enums import Reason, Role

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.blocked_writes import BlockedWrite
    from dtj_operator.reconcile.state.job_pods import JobPods
    from dtj_operator.reconcile.state.replicas import Replica, Replicas
    from dtj_operator.reconcile.state.snapshot import Pod, Snapshot

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
NOT_OURS = "exists and is not this job's; delete it, or use another job name"


@dataclass(frozen=True, slots=True)
class PodProblem:
    """One thing that keeps a pod from starting."""

    reason: Reason
    subject: str
    """`pod train-worker-1`: the beginning of the sentence."""
    words: str

    @property
    def sentence(self) -> str:
        """Subject and words in one sentence, for people."""
        return f"{self.subject}: {self.words}"


def find_pod_problem(snapshot: Snapshot, pods: JobPods, replicas: Replicas) -> PodProblem | None:
    """Return the first problem of the pods that train, and of the service."""
    evaluators = {replicas.pod_name(replica) for replica in replicas.records if replica.role is Role.EVALUATOR}
    blocked = [write for write in snapshot.blocked_writes if write.target not in evaluators]
    training = [replica for replica in replicas.records if replica.role is not Role.EVALUATOR]
    return _first(blocked, training, snapshot, pods, replicas)


def find_side_problem(snapshot: Snapshot, pods: JobPods, replicas: Replicas) -> PodProblem | None:
    """Return the first problem of the service or of an evaluator, where all pods that train are up."""
    evaluators = [replica for replica in replicas.records if replica.role is Role.EVALUATOR]
    names = {snapshot.job.name, *map(replicas.pod_name, evaluators)}
    blocked = [write for write in snapshot.blocked_writes if write.target in names]
    return _first(blocked, evaluators, snapshot, pods, replicas)


def _first(
    blocked: list[BlockedWrite], wanted: list[Replica], snapshot: Snapshot, pods: JobPods, replicas: Replicas
) -> PodProblem | None:
    if blocked:
        write = blocked[0]
        return PodProblem(Reason(write.kind.value), write.target, write.message)
    missing = [replica for replica in wanted if replica not in replicas.completed]
    return (
        _service_name_taken(snapshot)
        or _pod_name_taken([replicas.pod_name(replica) for replica in missing] if pods.foreign else [], pods)
        or _not_started(missing, pods)
    )


def _service_name_taken(snapshot: Snapshot) -> PodProblem | None:
    service = snapshot.service
    if service is None or service.owner_uid == snapshot.job.uid:
        return None
    return PodProblem(Reason.NAME_TAKEN, f"service {service.name}", NOT_OURS)


def _pod_name_taken(names: list[str], pods: JobPods) -> PodProblem | None:
    for name in names:
        pod = pods.foreign.get(name)
        if pod is not None:
            words = "is still terminating; it belongs to an earlier job of this name" if pod.deleted_at else NOT_OURS
            return PodProblem(Reason.NAME_TAKEN, f"pod {name}", words)
    return None


def _not_started(replicas: list[Replica], pods: JobPods) -> PodProblem | None:
    for replica in replicas:
        pod = pods.current(replica)
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
