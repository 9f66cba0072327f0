"""When a job is Running, and when it has run long enough for its past to be forgotten."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.api.enums import TRAINING_ROLES, Cause, ConditionType, EventReason, Reason
from dtj_operator.api.status import whole_second
from dtj_operator.reconcile.state.snapshot import TERMINAL

if TYPE_CHECKING:
    from datetime import datetime

    from dtj_operator.reconcile.state.replicas import Slot
    from dtj_operator.reconcile.state.scope import Draft

IN_PLACE = "RestartInPlace"
"""`lastIncident.action` of a restart by the kubelet."""


def is_up(draft: Draft, slot: Slot) -> bool:
    """Whether the slot does its part: its pod is Ready, or it is done."""
    if slot in draft.completed:
        return True
    pod = draft.current(slot)
    return (
        pod is not None
        and pod.ready
        and pod.phase not in TERMINAL
        and pod.deleted_at is None
        and not draft.node_lost(pod)
    )


def all_up(draft: Draft) -> bool:
    """Whether every chief, worker and ps does its part, and there is one to do it."""
    training = [slot for slot in draft.wanted if slot.role in TRAINING_ROLES]
    return (
        any(slot.role in {"chief", "worker"} for slot in training)
        and draft.slots.keys() >= set(training)
        and all(is_up(draft, slot) for slot in training)
    )


def forgiven(draft: Draft) -> None:
    """After `resetAfterSeconds` of Running the backoff and the free row begin anew."""
    backoff = draft.backoff
    running = draft.condition(ConditionType.RUNNING)
    if running is None or not running.holds:
        return
    if not (backoff.consecutive or backoff.free or backoff.unproven):
        return
    seconds = draft.spec.failure_policy.backoff.reset_after_seconds
    since = running.last_transition_time + timedelta(seconds=seconds)
    if draft.now < since:
        draft.check_at(since)
        return
    draft.backoff = backoff.model_copy(update={"consecutive": 0, "free": 0, "unproven": 0})


def running_again(draft: Draft) -> None:
    """The first Running after a start, and the end of an incident."""
    if not draft.started:
        draft.started = True
        draft.first_running_time = draft.first_running_time or whole_second(draft.now)
        draft.note(EventReason.STARTED, "All pods are ready; training runs.")
    incident = draft.incident
    if incident is None:
        _recovered_in_place(draft)
        return
    if incident.acted_attempt is None:
        return
    # Where a pod made by the action was restarted in place since, it is that which is recovered from.
    last = draft.last_incident
    cause, since = (last.cause, last.time) if last else (incident.root.cause, incident.opened_at)
    seconds = _recovered(draft, since)
    draft.incident = None
    planned = cause is Cause.SCALED
    message = f"{'Scaled' if planned else f'Recovered from {cause}'} after {seconds:.1f} s."
    draft.set_false(ConditionType.RESTARTING, Reason.RECOVERED, message)
    draft.note(EventReason.RECOVERED, message)


def _recovered_in_place(draft: Draft) -> None:
    """Nothing was acted upon after a restart by the kubelet, but it is over now.

    One of before a suspension ended with that: the time since then is none that a recovery took.
    """
    last = draft.last_incident
    if last is None or last.action != IN_PLACE or last.recovered_at is not None:
        return
    if draft.start_time is not None and last.time < draft.start_time:
        return
    seconds = _recovered(draft, last.time)
    draft.note(EventReason.RECOVERED, f"Recovered from {last.cause} in place after {seconds:.1f} s.")


def _recovered(draft: Draft, since: datetime) -> float:
    """Write the recovery down. Returns the seconds that it took."""
    seconds = max(0.0, round((draft.now - since).total_seconds(), 3))
    if draft.last_incident is not None:
        draft.last_incident = draft.last_incident.model_copy(
            update={"recovered_at": draft.now, "recovery_seconds": seconds}
        )
    return seconds
