"""Every replica has its pod, and nothing else of the job exists.

Runs last: what the earlier policies have decided stands in the replica records, and here it is
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
    """Bring pods and service to what the replica records ask for."""
    service_stands = _service(scope)
    for blocked in scope.snapshot.blocked_writes:
        if blocked.rests(scope.now):
            scope.plan.requeue_at(blocked.retry_at)
    for pod in scope.misnamed:
        scope.remove(pod)
    surplus = [replica for replica in scope.pods if replica not in scope.records]
    for replica in sorted(surplus, key=lambda s: s.index, reverse=True):
        if scope.pods[replica].phase != "Succeeded":
            scope.remove(scope.pods[replica])
    vacant = [
        replica
        for replica, record in scope.records.items()
        if replica not in scope.completed and _vacant(scope, replica, record)
    ]
    if vacant and service_stands and not scope.plan.creation_blocked:
        avoid, waiting = scope.lost_nodes(), held_back(scope, vacant)
        for replica in vacant:
            if replica not in waiting and scope.pod_name(replica) not in scope.foreign:
                scope.plan.create_pod(replica, scope.attempt, avoid)


def _vacant(scope: ReconcileScope, replica: Replica, record: ReplicaRecord) -> bool:
    """Whether the replica waits for its pod; a pod of an older attempt has to go first."""
    pod = scope.pods.get(replica)
    if pod is None:
        return not record.observed
    return scope.current(replica) is None and scope.remove(pod)


def _service(scope: ReconcileScope) -> bool:
    """Whether the service stands, or will when this plan's pods are created. A job of size 0 has one too."""
    service = scope.snapshot.service
    if service is not None:
        return service.owner_uid == scope.job.uid and service.deleted_at is None
    own = [blocked for blocked in scope.snapshot.blocked_writes if blocked.target == scope.name]
    if scope.plan.creation_blocked or too_early(own, scope.name, scope.job.generation, scope.now):
        return False
    scope.plan.create_service()
    return True


def held_back(scope: ReconcileScope, slots: Iterable[Replica]) -> set[Replica]:
    """Those of the slots whose pods may not be created yet.

    A refusal holds back its like and what comes after: first what replaces a failed pod, which had its place before,
    then what is new, and last the evaluators, which training does not wait for.
    """
    blocked_writes = scope.snapshot.blocked_writes
    if not blocked_writes:
        return set()
    failed = scope.failed if scope.incident else set()
    turns = {
        scope.pod_name(replica): (replica.role is Role.EVALUATOR, replica not in failed) for replica in scope.records
    }
    first = (False, False)

    def waits(name: str) -> bool:
        heard = (blocked for blocked in blocked_writes if turns.get(blocked.target, first) <= turns[name])
        return too_early(heard, name, scope.job.generation, scope.now)

    return {replica for replica in slots if waits(scope.pod_name(replica))}
