"""The tables of failures: what caused one, what it costs, how likely it is the root cause. First match wins."""

from __future__ import annotations

from dtj_operator.api.enums import Cause, Charge
from dtj_operator.api.trainer_contract import EXIT_KILLED, EXIT_PREEMPTED, EXIT_RETRY, EXIT_TERMINATED, ExitClass
from dtj_operator.reconcile.failures.exit_codes import ABORTED, FIRST_SIGNAL, SEGMENTATION_FAULT
from dtj_operator.reconcile.failures.failure import EVICTION_REASONS, Failure, rejected

LAST_SIGNAL = 159
NODE_LOSS_DISRUPTIONS = frozenset({"DeletionByTaintManager", "DeletionByPodGC"})
EVICTION_DISRUPTIONS = frozenset({"EvictionByEvictionAPI", "TerminationByKubelet"})
FREE_CODES = frozenset({0, EXIT_PREEMPTED, EXIT_RETRY, EXIT_KILLED, EXIT_TERMINATED})
"""Codes that are free without evidence, ten in a row. 0 is a serving role that ended early; of a pod that
has failed as a whole it is charged."""


def cause_of(failure: Failure) -> Cause:  # noqa: C901, PLR0911, PLR0912 - a table, first match wins
    """Return the cause of one failure."""
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


def charge_of(failure: Failure) -> Charge:
    """Return whether a restart is charged, were this the only failure."""
    if failure.explicit:
        return Charge.CHARGED
    if failure.evidence:
        return Charge.FREE
    free = failure.exit_code in FREE_CODES and not failure.pod_failed
    return Charge.FREE_LIMITED if free else Charge.CHARGED


def rank_of(failure: Failure) -> int:
    """Return how likely the failure is the root cause among several; smaller is likelier."""
    if failure.explicit:
        return 0
    if failure.evidence:
        return 1
    if failure.exit_code in {EXIT_KILLED, EXIT_TERMINATED, EXIT_PREEMPTED}:
        return 2
    return 4 if cause_of(failure) is Cause.PEER_LOST else 3


def _signal(code: int | None) -> bool:
    return code is not None and FIRST_SIGNAL < code <= LAST_SIGNAL and code not in {ABORTED, SEGMENTATION_FAULT}
