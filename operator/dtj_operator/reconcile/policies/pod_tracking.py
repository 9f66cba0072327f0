"""Records what is seen for the first time and must be remembered: pods, completed replicas, progress.

A pod that has been observed and is gone is a failure; a replica that is completed never runs again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.api.enums import RestartPolicy, Role
from dtj_operator.reconcile.failures.termination import has_succeeded, says_done, still_runs

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.recovery import Recovery
    from dtj_operator.reconcile.state.replicas import Replica, Replicas
    from dtj_operator.reconcile.state.scope import ReconcileScope
    from dtj_operator.reconcile.state.snapshot import Pod

BETWEEN_PROGRESS = timedelta(seconds=30)
"""The shortest time between two writes of progress alone."""


def track_pods(scope: ReconcileScope) -> None:
    """Record which pods exist, which replicas are completed, and how far training is."""
    _track_progress(scope)
    replicas = scope.replicas
    for replica, record in list(replicas.records.items()):
        pod = scope.pods.current(replica)
        if pod is None:
            continue
        if not record.observed or pod.attempt > record.attempt:
            replicas.observe(replica, pod.attempt)
        if _is_completed(scope, replica, pod):
            replicas.complete(replica)
    _track_replaced(scope)
    if scope.snapshot.created_attempts and not scope.conditions.finished:
        _observe_created(scope)
    _track_first_pod(scope)


def _track_replaced(scope: ReconcileScope) -> None:
    """Record as completed what our trainer calls done in a pod that is already being replaced or stopped."""
    for replica, pod in scope.pods.owned.items():
        replaced = scope.pods.current(replica) is None and _may_complete(scope, replica, pod)
        if replaced and says_done(pod, scope.pods.main_container(replica)):
            scope.replicas.complete(replica)


def _is_completed(scope: ReconcileScope, replica: Replica, pod: Pod) -> bool:
    """Return whether the replica is newly completed."""
    main = scope.pods.main_container(replica)
    # Asked first: it is the answer for nearly all pods of a large job.
    if still_runs(pod, main) or not _may_complete(scope, replica, pod):
        return False
    return says_done(pod, main) or (
        has_succeeded(pod, main, node_lost=scope.pods.node_lost(pod))
        and not _waits_to_be_replaced(replica, scope.replicas, scope.recovery)
    )


def _may_complete(scope: ReconcileScope, replica: Replica, pod: Pod) -> bool:
    """Return whether the end of a replica's pod can complete it.

    Under Always nothing ever is completed: the kubelet starts an ended container again, and calls a pod Succeeded only
    if it was deleted and all its containers ended with 0 then.
    """
    return (
        replica not in scope.replicas.completed
        and not scope.lifecycle.only_serves(replica)
        and not (scope.conditions.finished and pod.deleted_at)
        and scope.replicas.restart_policy(replica) is not RestartPolicy.ALWAYS
    )


def _waits_to_be_replaced(replica: Replica, replicas: Replicas, recovery: Recovery) -> bool:
    """Return whether the replica's pod has failed and waits to be replaced: how it ends after that does not count."""
    if replica.role is Role.EVALUATOR:
        restart = replicas.evaluator_restarts.get(replica.index)
        return restart is not None and restart.due is not None
    return recovery.waits_to_act and replica in recovery.failed


def _observe_created(scope: ReconcileScope) -> None:
    """Observe pods that were created and are gone before a pass could write down that they existed."""
    for replica, record in list(scope.replicas.records.items()):
        attempt = scope.snapshot.created_attempts.get(scope.replicas.pod_name(replica))
        if attempt is None or replica.role is Role.EVALUATOR or replica in scope.pods.owned:
            continue
        if not record.observed and attempt >= record.attempt:
            scope.replicas.observe(replica, attempt)


def _track_first_pod(scope: ReconcileScope) -> None:
    lifecycle = scope.lifecycle
    if lifecycle.first_pod_time is not None or lifecycle.start_time is None:
        return
    # Pods of before a suspension may still terminate, and keep those of this start from being created.
    created = [pod.created_at for replica in scope.replicas.records if (pod := scope.pods.current(replica))]
    if created:
        # The API server's clock, which may be ahead of ours: what is seen was created by now.
        lifecycle.first_pod(max(min(*created, scope.now), lifecycle.start_time))


def _track_progress(scope: ReconcileScope) -> None:
    """Take the latest answer of the success pod, at most every 30 s."""
    latest, known = scope.snapshot.progress, scope.progress
    if latest is None or latest.updated_at is None:
        return
    last = known.updated_at if known else None
    if last is None or last > scope.now or latest.updated_at >= last + BETWEEN_PROGRESS:
        scope.progress = latest
