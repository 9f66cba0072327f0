"""The facts of one failed pod: what its container, its kubelet and its node say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dtj_operator.api.enums import RestartPolicy, Role
from dtj_operator.api.trainer_contract import (
    ExitClass,
)
from dtj_operator.reconcile.failures.termination import failed_with_code_0, find_termination, kubelet_undecided
from dtj_operator.reconcile.state.snapshot import TERMINAL
from dtj_operator.reconcile.state.trainer_messages import parse_count, parse_termination_message, valid_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from dtj_operator.reconcile.state.job_pods import JobPods
    from dtj_operator.reconcile.state.replicas import Replica, Replicas
    from dtj_operator.reconcile.state.snapshot import Pod, Terminated

CLASSES = frozenset(ExitClass)
OOM_KILLED = "OOMKilled"

EVICTION_REASONS = frozenset({"Evicted", "Shutdown", "Terminated"})
REJECTION_REASONS = frozenset(
    {
        "InvalidNodeInfo",
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "NodeShutdown",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "TaintToleration",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
        "UnexpectedPredicateFailureType",
    }
)
"""Why a kubelet does not admit a pod that another might: its predicates, and the state of its node."""
OUT_OF_RESOURCE = "OutOf"
"""The kubelet's OutOfcpu, OutOfmemory, OutOfpods, OutOfnvidia.com/gpu …"""

MESSAGE_KEPT = 512
"""Characters of a termination message that status keeps."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The facts of one failed pod."""

    exit_code: int | None
    """Of the main container; None when it did not end, or nobody saw it."""
    reason: str = ""
    """Of the terminated container."""
    exit_class: str = ""
    """`class` of the termination message; empty when there is none, or another than ours."""
    message: str = ""
    """The whole termination message, or the pod's own words."""
    pod_reason: str = ""
    disruption: str = ""
    deleted: bool = False
    """Has a deletionTimestamp that is not ours, or is gone though nobody of us deleted it."""
    node_lost: bool = False
    pod_failed: bool = False
    """The pod has failed as a whole, though its main container ended with 0."""
    node: str = ""
    step: int = 0
    at: datetime | None = None

    @property
    def out_of_memory(self) -> bool:
        """Whether the container's own memory limit ended it."""
        killed = self.reason == OOM_KILLED and bool(self.exit_code)
        return killed or self.exit_class == ExitClass.OUT_OF_MEMORY

    @property
    def explicit(self) -> bool:
        """Whether the pod itself reports that its program is to blame."""
        return self.out_of_memory or self.exit_class == ExitClass.USER_ERROR

    @property
    def evidence(self) -> bool:
        """Whether the cluster has taken the pod away."""
        return bool(
            self.disruption
            or self.deleted
            or self.node_lost
            or self.pod_reason in {"NodeLost", "Preempting"}
            or self.pod_reason in EVICTION_REASONS
            or rejected(self.pod_reason)
        )

    @property
    def disrupted(self) -> bool:
        """Whether a disruption or the loss of the node is known, which may come later than the failure itself."""
        return bool(self.disruption or self.node_lost)

    @property
    def words(self) -> str:
        """The last message of the pod, shortened for people."""
        text = str(parse_termination_message(self.message).get("message") or "") or self.message
        line = " ".join(valid_text(text).split())
        return line if len(line) <= MESSAGE_KEPT else line[: MESSAGE_KEPT - 1] + "…"


def rejected(pod_reason: str) -> bool:
    """Return whether the kubelet refused to run the pod."""
    return pod_reason in REJECTION_REASONS or pod_reason.startswith(OUT_OF_RESOURCE)


VANISHED = Failure(exit_code=None, deleted=True, message="the pod is gone")
"""A pod that had been observed and is no more."""


def failure_of(pod: Pod, end: Terminated | None, main: str, *, node_lost: bool) -> Failure:
    """Return the facts of a pod that has failed or is being taken away."""
    message = end.message if end else pod.message
    told = parse_termination_message(message)
    word = str(told.get("class"))
    # A kubelet that came back may know no container any more; Succeeded still means that all ended with 0.
    code = 0 if pod.phase == "Succeeded" else None
    return Failure(
        exit_code=end.exit_code if end else code,
        reason=end.reason if end else "",
        exit_class=word if word in CLASSES else "",
        message=message or pod.message,
        pod_reason=pod.reason,
        disruption=pod.disruption,
        deleted=pod.deleted_at is not None,
        node_lost=node_lost,
        pod_failed=failed_with_code_0(pod, main),
        node=pod.node,
        step=parse_count(told.get("step")) or 0,
        at=end.finished_at if end else None,
    )


def find_failure(replica: Replica, pods: JobPods, replicas: Replicas) -> Failure | None:
    """Return what has gone wrong with the pod that the replica should have; None if nothing has."""
    if replica not in pods.owned:
        return VANISHED if replicas.records[replica].observed else None
    pod = pods.current(replica)
    if pod is None:
        return None
    lost = pods.node_lost(pod)
    restarts_itself = replicas.restart_policy(replica) is RestartPolicy.ALWAYS and pod.phase != "Failed"
    end = None if restarts_itself else find_termination(pod, pods.main_container(replica))
    over = (end is not None or pod.phase in TERMINAL) and not kubelet_undecided(pod)
    if over or lost or pod.deleted_at is not None:
        return failure_of(pod, end, pods.main_container(replica), node_lost=lost)
    return None


def find_failures(pods: JobPods, replicas: Replicas) -> Iterator[tuple[Replica, Failure]]:
    """Yield the failed replicas that training needs. Evaluators fail apart from the job; completed replicas cannot."""
    for replica in list(replicas.records):
        if replica.role is Role.EVALUATOR or replica in replicas.completed:
            continue
        failure = find_failure(replica, pods, replicas)
        if failure is not None:
            yield replica, failure
