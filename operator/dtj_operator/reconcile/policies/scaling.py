"""When the number of replicas of a running job changes.

What a new size means depends on the strategy: MultiWorkerMirrored re-forms as a whole (never a
mixed cluster), ParameterServer tells only its chief, None tells nobody. Whatever changes the
cluster raises the attempt. The highest indexes go first, and what is done stays done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import (
    Cause,
    ConditionType,
    EventReason,
    Reason,
    Role,
    StrategyType,
)
from dtj_operator.api.status import LastIncident, OpenIncident, Root
from dtj_operator.reconcile.policies.created import warn_of_growth
from dtj_operator.reconcile.state.replicas import SlotRecord, success_slot

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.replicas import Slot
    from dtj_operator.reconcile.state.scope import Draft


def resized(draft: Draft) -> bool:
    """Whether the spec asks for other slots than the job runs with."""
    return draft.slots.keys() != set(draft.wanted)


def scaled(draft: Draft) -> None:
    """Take over a new size; an incident that waits for its action goes first."""
    if draft.held or not resized(draft):
        return
    if draft.waits_to_act:
        draft.held = "The job is scaled once its restart is under way."
        return
    before = draft.strategy
    warn_of_growth(draft, len(draft.slots))
    draft.choose_strategy()
    draft.attempt += 1
    told = _re_created(draft, before.type if before else None)
    wanted = dict.fromkeys(draft.wanted)
    running = [slot for slot in told if draft.slots[slot].seen]
    draft.slots = {slot: r for slot, r in draft.slots.items() if slot in wanted}
    for slot in wanted:
        draft.slots.setdefault(slot, SlotRecord(draft.attempt, seen=False))
    for slot in told:
        draft.renew(slot)
    for slot in list(draft.in_place):
        if slot not in wanted:
            del draft.in_place[slot]
    draft.evaluators = {
        index: one for index, one in draft.evaluators.items() if index < draft.spec.replicas(Role.EVALUATOR)
    }
    sizes = ", ".join(f"{r.replicas} {role}" for role, r in draft.spec.replica_specs.items())
    message = f"The job now has {sizes}, attempt {draft.attempt}."
    draft.note(EventReason.SCALED, message)
    if running:
        _planned_restart(draft, running[0], message)
    elif success_slot(draft) is None and draft.incident is not None:
        # Nobody is left to recover; who comes back one day starts anew.
        draft.incident = None
        draft.set_false(ConditionType.RESTARTING, Reason.NO_REPLICAS, message)


def _re_created(draft: Draft, before: StrategyType | None) -> list[Slot]:
    """Slots of the new size whose running pods have to learn of it by being made anew."""
    now = draft.strategy.type if draft.strategy else None
    if StrategyType.MULTI_WORKER_MIRRORED in {before, now}:
        roles = {Role.CHIEF, Role.WORKER}
    elif now is StrategyType.PARAMETER_SERVER:
        roles = {Role.CHIEF}
    else:
        roles = set()
    return [slot for slot in draft.wanted if slot.role in roles and slot in draft.slots and slot not in draft.completed]


def _planned_restart(draft: Draft, first: Slot, message: str) -> None:
    """Running pods are re-created: a restart that is nobody's fault."""
    counts = draft.restarts.by_cause
    draft.restarts = draft.restarts.model_copy(
        update={
            "total": draft.restarts.total + 1,
            "by_cause": counts | {Cause.SCALED: counts.get(Cause.SCALED, 0) + 1},
        }
    )
    draft.fallen = set()
    draft.incident = OpenIncident(
        opened_at=draft.now,
        root=Root(
            role=first.role,
            index=first.index,
            cause=Cause.SCALED,
            evidence=True,
            rank=0,
            standing="Proven",
            at=draft.now,
            message=message,
        ),
        acted_attempt=draft.attempt,
    )
    draft.last_incident = LastIncident(time=draft.now, cause=Cause.SCALED, message=message, action="Scaled")
    draft.set_true(ConditionType.RESTARTING, Reason.SCALED, message)
