"""Every replica has its pod, and nothing else of the job exists.

Runs last: what the earlier policies have decided stands in the replica records, and here it is
turned into creations and deletions. Read again after a crash, the same records give the same
actions, so nothing is done twice and nothing is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import Role
from dtj_operator.reconcile.state.blocked_writes import too_early
from dtj_operator.reconcile.state.plan import CreatePod, CreateService

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dtj_operator.reconcile.state.replicas import Replica, ReplicaRecord
    from dtj_operator.reconcile.state.scope import Draft


def reconcile_pods(draft: Draft) -> None:
    """Bring pods and service to what the replica records ask for."""
    service_stands = _service(draft)
    for blocked in draft.snapshot.blocked_writes:
        if blocked.rests(draft.now):
            draft.check_at(blocked.retry_at)
    for pod in draft.misnamed:
        draft.remove(pod)
    surplus = [replica for replica in draft.pods if replica not in draft.records]
    for replica in sorted(surplus, key=lambda s: s.index, reverse=True):
        if draft.pods[replica].phase != "Succeeded":
            draft.remove(draft.pods[replica])
    vacant = [
        replica
        for replica, record in draft.records.items()
        if replica not in draft.completed and _vacant(draft, replica, record)
    ]
    if vacant and service_stands and not draft.held:
        avoid, waiting = draft.lost_nodes(), held_back(draft, vacant)
        for replica in vacant:
            if replica not in waiting and draft.pod_name(replica) not in draft.foreign:
                draft.actions.append(CreatePod(replica.role, replica.index, draft.attempt, avoid))


def _vacant(draft: Draft, replica: Replica, record: ReplicaRecord) -> bool:
    """Whether the replica waits for its pod; a pod of an older attempt has to go first."""
    pod = draft.pods.get(replica)
    if pod is None:
        return not record.observed
    return draft.current(replica) is None and draft.remove(pod)


def _service(draft: Draft) -> bool:
    """Whether the service stands, or will when this plan's pods are created. A job of size 0 has one too."""
    service = draft.snapshot.service
    if service is not None:
        return service.owner_uid == draft.job.uid and service.deleted_at is None
    own = [blocked for blocked in draft.snapshot.blocked_writes if blocked.target == draft.name]
    if draft.held or too_early(own, draft.name, draft.job.generation, draft.now):
        return False
    draft.actions.append(CreateService())
    return True


def held_back(draft: Draft, slots: Iterable[Replica]) -> set[Replica]:
    """Those of the slots whose pods may not be created yet.

    A refusal holds back its like and what comes after: first what replaces a failed pod, which had its place before,
    then what is new, and last the evaluators, which training does not wait for.
    """
    blocked_writes = draft.snapshot.blocked_writes
    if not blocked_writes:
        return set()
    failed = draft.failed if draft.incident else set()
    turns = {
        draft.pod_name(replica): (replica.role is Role.EVALUATOR, replica not in failed) for replica in draft.records
    }
    first = (False, False)

    def waits(name: str) -> bool:
        heard = (blocked for blocked in blocked_writes if turns.get(blocked.target, first) <= turns[name])
        return too_early(heard, name, draft.job.generation, draft.now)

    return {replica for replica in slots if waits(draft.pod_name(replica))}
