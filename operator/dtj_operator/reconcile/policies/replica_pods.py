"""Every slot has its pod, and nothing else of the job exists.

Runs last: what the earlier policies have decided stands in the slot records, and here it is
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

    from dtj_operator.reconcile.state.replicas import Slot, SlotRecord
    from dtj_operator.reconcile.state.scope import Draft


def membership(draft: Draft) -> None:
    """Bring pods and service to what the slot records ask for."""
    service_stands = _service(draft)
    for blocked in draft.snapshot.blocked_writes:
        if blocked.rests(draft.now):
            draft.check_at(blocked.retry_at)
    for pod in draft.strays:
        draft.remove(pod)
    surplus = [slot for slot in draft.pods if slot not in draft.slots]
    for slot in sorted(surplus, key=lambda s: s.index, reverse=True):
        if draft.pods[slot].phase != "Succeeded":
            draft.remove(draft.pods[slot])
    vacant = [
        slot for slot, record in draft.slots.items() if slot not in draft.completed and _vacant(draft, slot, record)
    ]
    if vacant and service_stands and not draft.held:
        avoid, waiting = draft.lost_nodes(), held_back(draft, vacant)
        for slot in vacant:
            if slot not in waiting and draft.pod_name(slot) not in draft.others:
                draft.actions.append(CreatePod(slot.role, slot.index, draft.attempt, avoid))


def _vacant(draft: Draft, slot: Slot, record: SlotRecord) -> bool:
    """Whether the slot waits for its pod; a pod of an older attempt has to go first."""
    pod = draft.pods.get(slot)
    if pod is None:
        return not record.seen
    return draft.current(slot) is None and draft.remove(pod)


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


def held_back(draft: Draft, slots: Iterable[Slot]) -> set[Slot]:
    """Those of the slots whose pods may not be created yet.

    A refusal holds back its like and what comes after: first what replaces a failed pod, which had its place before,
    then what is new, and last the evaluators, which training does not wait for.
    """
    blocked_writes = draft.snapshot.blocked_writes
    if not blocked_writes:
        return set()
    failed = draft.fallen if draft.incident else set()
    turns = {draft.pod_name(slot): (slot.role is Role.EVALUATOR, slot not in failed) for slot in draft.slots}
    first = (False, False)

    def waits(name: str) -> bool:
        heard = (blocked for blocked in blocked_writes if turns.get(blocked.target, first) <= turns[name])
        return too_early(heard, name, draft.job.generation, draft.now)

    return {slot for slot in slots if waits(draft.pod_name(slot))}
