"""Every replica has its pod, the job its service, and nothing else of the job exists.

What the earlier policies have decided stands in the records of the replicas, and here it is
turned into creations and deletions. Read again after a crash, the same records give the same
actions, so nothing is done twice and nothing is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import Role
from dtj_operator.reconcile.state.blocked_writes import too_early

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dtj_operator.reconcile.state.replicas import Replica, ReplicaRecord
    from dtj_operator.reconcile.state.scope import ReconcileScope


def reconcile_pods(scope: ReconcileScope) -> None:
    """Create and delete until pods and service are what the records ask for."""
    replicas, pods, plan = scope.replicas, scope.pods, scope.plan
    service_stands = _reconcile_service(scope)
    for blocked in scope.snapshot.blocked_writes:
        if blocked.rests(scope.now):
            plan.requeue_at(blocked.retry_at)
    for pod in pods.misnamed:
        scope.delete_pod(pod)
    surplus = [replica for replica in pods.owned if replica not in replicas.records]
    for replica in sorted(surplus, key=lambda replica: replica.index, reverse=True):
        if pods.owned[replica].phase != "Succeeded":
            scope.delete_pod(pods.owned[replica])
    vacant = [
        replica
        for replica, record in replicas.records.items()
        if replica not in replicas.completed and _is_vacant(scope, replica, record)
    ]
    if vacant and service_stands and not plan.creation_blocked:
        lost, waiting = pods.lost_nodes(), _held_back(scope, vacant)
        for replica in vacant:
            if replica not in waiting and replicas.pod_name(replica) not in pods.foreign:
                avoid = {*lost, *scope.rejections.avoided(replica)}
                plan.create_pod(replica, replicas.attempt, tuple(sorted(avoid)))


def _is_vacant(scope: ReconcileScope, replica: Replica, record: ReplicaRecord) -> bool:
    """Return whether the replica waits for its pod; a pod of an older attempt is deleted first."""
    pod = scope.pods.owned.get(replica)
    if pod is None:
        return not record.observed
    return scope.pods.current(replica) is None and scope.delete_pod(pod)


def _reconcile_service(scope: ReconcileScope) -> bool:
    """Return whether the service stands, or will when this plan's pods are created. A job of size 0 has one too."""
    service, name = scope.snapshot.service, scope.job.name
    if service is not None:
        return service.owner_uid == scope.job.uid and service.deleted_at is None
    own = [blocked for blocked in scope.snapshot.blocked_writes if blocked.target == name]
    if scope.plan.creation_blocked or too_early(own, name, scope.job.generation, scope.now):
        return False
    scope.plan.create_service()
    return True


def _held_back(scope: ReconcileScope, vacant: Iterable[Replica]) -> set[Replica]:
    """Return the replicas whose pods may not be created yet.

    A refusal holds back its like and what comes after: first what replaces a failed pod, which had its place before,
    then what is new, and last the evaluators, which training does not wait for.
    """
    blocked_writes, replicas = scope.snapshot.blocked_writes, scope.replicas
    if not blocked_writes:
        return set()
    failed = scope.recovery.failed if scope.recovery.incident else set()
    turns = {
        replicas.pod_name(replica): (replica.role is Role.EVALUATOR, replica not in failed)
        for replica in replicas.records
    }
    first = (False, False)

    def waits(name: str) -> bool:
        heard = (blocked for blocked in blocked_writes if turns.get(blocked.target, first) <= turns[name])
        return too_early(heard, name, scope.job.generation, scope.now)

    return {replica for replica in vacant if waits(replicas.pod_name(replica))}
