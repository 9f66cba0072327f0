"""What is seen for the first time, and must never be forgotten.

A pod that has been seen and is gone is a failure; a replica that is done is never run again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.api.enums import RestartPolicy, Role
from dtj_operator.api.status import whole_second
from dtj_operator.reconcile.failures.termination import succeeded
from dtj_operator.reconcile.state.replicas import SlotRecord

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.replicas import Slot
    from dtj_operator.reconcile.state.scope import Draft


def observed(draft: Draft) -> None:
    """Take in which pods exist and which are done.

    Under Always nothing is ever done: the kubelet starts an ended container again, and calls a pod Succeeded only if
    it was deleted and all its containers ended with 0 then.
    """
    for slot, record in list(draft.slots.items()):
        pod = draft.current(slot)
        if pod is None:
            continue
        if not record.seen or pod.attempt > record.attempt:
            draft.slots[slot] = SlotRecord(pod.attempt, seen=True)
            draft.attempt = max(draft.attempt, pod.attempt)
        if (
            slot not in draft.completed
            and not draft.serves(slot)
            and succeeded(pod, draft.main(slot))
            and not (draft.finished and pod.deleted_at)
            and not _fallen(draft, slot)
            and draft.restart_policy(slot) is not RestartPolicy.ALWAYS
        ):
            draft.completed.add(slot)
    if draft.snapshot.made and not draft.finished:
        _remember_made(draft)
    if draft.first_pod_time is None and draft.start_time:
        # Pods of before a suspension may still terminate, and keep those of this start from being created.
        created = [pod.created_at for slot in draft.slots if (pod := draft.current(slot))]
        if created:
            # The API server's clock, which may be ahead of ours: what is seen was created by now.
            draft.first_pod_time = whole_second(max(min(*created, draft.now), draft.start_time))


def _fallen(draft: Draft, slot: Slot) -> bool:
    """Whether the slot's pod has failed and waits to be replaced: what it ends with after that is not heard."""
    if slot.role is Role.EVALUATOR:
        known = draft.evaluators.get(slot.index)
        return known is not None and known.due is not None
    return draft.waits_to_act and slot in draft.fallen


def _remember_made(draft: Draft) -> None:
    """A pod that was made and is gone before a pass could write down that it existed has been seen all the same."""
    for slot, record in draft.slots.items():
        attempt = draft.snapshot.made.get(draft.pod_name(slot))
        if attempt is None or slot.role is Role.EVALUATOR or slot in draft.pods:
            continue
        if not record.seen and attempt >= record.attempt:
            draft.slots[slot] = SlotRecord(attempt, seen=True)


EVERY = timedelta(seconds=30)
"""The shortest time between two writes of progress alone."""


def reported(draft: Draft) -> None:
    """Take over the latest answer of the success pod, at most every 30 s."""
    latest, known = draft.snapshot.progress, draft.progress
    if latest is None or latest.updated_at is None:
        return
    if known and known.updated_at and known.updated_at <= draft.now and latest.updated_at < known.updated_at + EVERY:
        return
    draft.progress = latest
