"""What is seen for the first time, and must never be forgotten.

A pod that has been seen and is gone is a failure; a replica that is done is never run again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.api.enums import RestartPolicy, Role
from dtj_operator.api.wire_model import whole_second
from dtj_operator.reconcile.failures.termination import succeeded
from dtj_operator.reconcile.state.replicas import ReplicaRecord

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.replicas import Replica
    from dtj_operator.reconcile.state.scope import ReconcileScope


def track_pods(scope: ReconcileScope) -> None:
    """Take in which pods exist and which are done.

    Under Always nothing is ever done: the kubelet starts an ended container again, and calls a pod Succeeded only if
    it was deleted and all its containers ended with 0 then.
    """
    _take_progress(scope)
    for replica, record in list(scope.records.items()):
        pod = scope.current(replica)
        if pod is None:
            continue
        if not record.observed or pod.attempt > record.attempt:
            scope.records[replica] = ReplicaRecord(pod.attempt, observed=True)
            scope.attempt = max(scope.attempt, pod.attempt)
        if (
            replica not in scope.completed
            and not scope.serves(replica)
            and succeeded(pod, scope.main(replica))
            and not (scope.conditions.finished and pod.deleted_at)
            and not _fallen(scope, replica)
            and scope.restart_policy(replica) is not RestartPolicy.ALWAYS
        ):
            scope.completed.add(replica)
    if scope.snapshot.created_attempts and not scope.conditions.finished:
        _remember_made(scope)
    if scope.first_pod_time is None and scope.start_time:
        # Pods of before a suspension may still terminate, and keep those of this start from being created.
        created = [pod.created_at for replica in scope.records if (pod := scope.current(replica))]
        if created:
            # The API server's clock, which may be ahead of ours: what is seen was created by now.
            scope.first_pod_time = whole_second(max(min(*created, scope.now), scope.start_time))


def _fallen(scope: ReconcileScope, replica: Replica) -> bool:
    """Whether the replica's pod has failed and waits to be replaced: what it ends with after that is not heard."""
    if replica.role is Role.EVALUATOR:
        known = scope.evaluators.get(replica.index)
        return known is not None and known.due is not None
    return scope.waits_to_act and replica in scope.failed


def _remember_made(scope: ReconcileScope) -> None:
    """A pod that was made and is gone before a pass could write down that it existed has been seen all the same."""
    for replica, record in scope.records.items():
        attempt = scope.snapshot.created_attempts.get(scope.pod_name(replica))
        if attempt is None or replica.role is Role.EVALUATOR or replica in scope.pods:
            continue
        if not record.observed and attempt >= record.attempt:
            scope.records[replica] = ReplicaRecord(attempt, observed=True)


EVERY = timedelta(seconds=30)
"""The shortest time between two writes of progress alone."""


def _take_progress(scope: ReconcileScope) -> None:
    """Take over the latest answer of the success pod, at most every 30 s."""
    latest, known = scope.snapshot.progress, scope.progress
    if latest is None or latest.updated_at is None:
        return
    if known and known.updated_at and known.updated_at <= scope.now and latest.updated_at < known.updated_at + EVERY:
        return
    scope.progress = latest
