"""How one pod failed: the facts, and what they mean taken alone.

`describe` gathers, `cause_of`, `standing_of` and `rank_of` judge; each is a table read from top
to bottom.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from dtj_operator.api.enums import Cause
from dtj_operator.api.trainer_contract import (
    EXIT_KILLED,
    EXIT_PREEMPTED,
    EXIT_RETRY,
    EXIT_TERMINATED,
    ExitClass,
)
from dtj_operator.reconcile.failures.exit_codes import ABORTED, FIRST_SIGNAL, SEGMENTATION_FAULT
from dtj_operator.reconcile.state.trainer_messages import decoded, whole, writable

if TYPE_CHECKING:
    from datetime import datetime

    from dtj_operator.reconcile.state.snapshot import Container, Pod, Terminated

CLASSES = frozenset(ExitClass)
OOM_KILLED = "OOMKilled"
LAST_SIGNAL = 159
KEYBOARD_INTERRUPT = 130

NODE_LOSS_DISRUPTIONS = frozenset({"DeletionByTaintManager", "DeletionByPodGC"})
EVICTION_DISRUPTIONS = frozenset({"EvictionByEvictionAPI", "TerminationByKubelet"})
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


class Standing(StrEnum):
    """Whether a failure costs a restart of the budget."""

    CHARGED = "Charged"
    PROVEN = "Proven"
    """Free: there is evidence of a disruption."""
    UNPROVEN = "Unproven"
    """Free, but only ten in a row."""


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
        """Whether the program itself is to blame, in so many words."""
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
    def words(self) -> str:
        """What the pod said last, short enough for people."""
        text = str(decoded(self.message).get("message") or "") or self.message
        line = " ".join(writable(text).split())
        return line if len(line) <= MESSAGE_KEPT else line[: MESSAGE_KEPT - 1] + "…"


def rejected(pod_reason: str) -> bool:
    """Whether the kubelet refused to run the pod."""
    return pod_reason in REJECTION_REASONS or pod_reason.startswith(OUT_OF_RESOURCE)


def ended(pod: Pod, main: str) -> Terminated | None:
    """How the pod's main container ended, if it has; for a failed pod whose main container
    never ran, how the container ended that stands for it (an init container, for instance).
    """
    container = _named(pod, main)
    if container and container.terminated:
        return container.terminated
    if pod.phase == "Failed":
        for other in pod.containers:
            if other.terminated and other.terminated.exit_code:
                return other.terminated
    return None


def succeeded(pod: Pod, main: str) -> bool:
    """Whether the main container is done: exit code 0, whatever any reason field says."""
    container = _named(pod, main)
    if container and container.terminated:
        return container.terminated.exit_code == 0
    return pod.phase == "Succeeded"


def describe(pod: Pod, end: Terminated | None, *, node_lost: bool) -> Failure:
    """The facts of a pod that has failed or is being taken away."""
    message = end.message if end else pod.message
    told = decoded(message)
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
        node=pod.node,
        step=whole(told.get("step")) or 0,
        at=end.finished_at if end else None,
    )


VANISHED = Failure(exit_code=None, deleted=True, message="the pod is gone")
"""A pod that had been seen and is no more."""


def cause_of(failure: Failure) -> Cause:  # noqa: C901, PLR0911, PLR0912 - a table, first match wins
    """The cause of one failure, first match."""
    code, told = failure.exit_code, failure.exit_class
    if failure.out_of_memory:
        return Cause.OUT_OF_MEMORY
    if told == ExitClass.USER_ERROR:
        return Cause.USER_ERROR
    if failure.node_lost or failure.pod_reason == "NodeLost" or failure.disruption in NODE_LOSS_DISRUPTIONS:
        return Cause.NODE_LOST
    if (
        failure.disruption == "PreemptionByScheduler"
        or failure.pod_reason == "Preempting"
        or told == ExitClass.PREEMPTED
    ):
        return Cause.PREEMPTED
    if failure.disruption in EVICTION_DISRUPTIONS or failure.pod_reason in EVICTION_REASONS:
        return Cause.EVICTED
    if rejected(failure.pod_reason):
        return Cause.REJECTED
    if failure.deleted:
        return Cause.DELETED
    if not told and code in {EXIT_PREEMPTED, EXIT_TERMINATED}:
        return Cause.PREEMPTED
    if told == ExitClass.STALLED:
        return Cause.STALLED
    if told == ExitClass.PREFLIGHT_FAILED:
        return Cause.PREFLIGHT_FAILED
    if told in {ExitClass.PEER_LOST, ExitClass.FENCED}:
        return Cause.PEER_LOST
    if told == ExitClass.KILLED or _signal(code):
        return Cause.KILLED
    if code == EXIT_RETRY:
        return Cause.PEER_LOST
    if code and (code <= FIRST_SIGNAL or code in {ABORTED, SEGMENTATION_FAULT}):
        return Cause.USER_ERROR
    return Cause.UNKNOWN


FREE_CODES = frozenset({0, EXIT_PREEMPTED, EXIT_RETRY, EXIT_KILLED, EXIT_TERMINATED})
"""Codes that are free without evidence, ten in a row. 0 is a serving role that ended early."""


def standing_of(failure: Failure) -> Standing:
    """Whether one failure alone would be charged."""
    if failure.explicit:
        return Standing.CHARGED
    if failure.evidence:
        return Standing.PROVEN
    return Standing.UNPROVEN if failure.exit_code in FREE_CODES else Standing.CHARGED


def rank_of(failure: Failure) -> int:
    """How likely the failure is the root cause among several; smaller is likelier."""
    if failure.explicit:
        return 0
    if failure.evidence:
        return 1
    if failure.exit_code in {EXIT_KILLED, EXIT_TERMINATED, EXIT_PREEMPTED}:
        return 2
    return 4 if cause_of(failure) is Cause.PEER_LOST else 3


def _signal(code: int | None) -> bool:
    return code is not None and FIRST_SIGNAL < code <= LAST_SIGNAL and code not in {ABORTED, SEGMENTATION_FAULT}


def _named(pod: Pod, name: str) -> Container | None:
    for container in pod.containers:
        if container.name == name:
            return container
    return None
