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
from dtj_operator.api.persisted_state import OpenIncident, Root
from dtj_operator.api.status import LastIncident
from dtj_operator.reconcile.policies.created import warn_of_growth
from dtj_operator.reconcile.state.replicas import ReplicaRecord, success_replica

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.replicas import Replica
    from dtj_operator.reconcile.state.scope import Draft


def resized(draft: Draft) -> bool:
    """Whether the spec asks for other slots than the job runs with."""
    return draft.records.keys() != set(draft.desired)


def scale(draft: Draft) -> None:
    """Take over a new size; an incident that waits for its action goes first."""
    if draft.held or not resized(draft):
        return
    if draft.waits_to_act:
        draft.held = "The job is scaled once its restart is under way."
        return
    before = draft.strategy
    warn_of_growth(draft, len(draft.records))
    draft.choose_strategy()
    draft.attempt += 1
    told = _re_created(draft, before.type if before else None)
    wanted = dict.fromkeys(draft.desired)
    running = [replica for replica in told if draft.records[replica].observed]
    draft.records = {replica: r for replica, r in draft.records.items() if replica in wanted}
    for replica in wanted:
        draft.records.setdefault(replica, ReplicaRecord(draft.attempt, observed=False))
    for replica in told:
        draft.renew(replica)
    for replica in list(draft.container_restarts):
        if replica not in wanted:
            del draft.container_restarts[replica]
    draft.evaluators = {
        index: one for index, one in draft.evaluators.items() if index < draft.spec.replicas(Role.EVALUATOR)
    }
    sizes = ", ".join(f"{r.replicas} {role}" for role, r in draft.spec.replica_specs.items())
    message = f"The job now has {sizes}, attempt {draft.attempt}."
    draft.note(EventReason.SCALED, message)
    if running:
        _planned_restart(draft, running[0], message)
    elif success_replica(draft) is None and draft.incident is not None:
        # Nobody is left to recover; who comes back one day starts anew.
        draft.incident = None
        draft.set_false(ConditionType.RESTARTING, Reason.NO_REPLICAS, message)


def _re_created(draft: Draft, before: StrategyType | None) -> list[Replica]:
    """Slots of the new size whose running pods have to learn of it by being made anew."""
    now = draft.strategy.type if draft.strategy else None
    if StrategyType.MULTI_WORKER_MIRRORED in {before, now}:
        roles = {Role.CHIEF, Role.WORKER}
    elif now is StrategyType.PARAMETER_SERVER:
        roles = {Role.CHIEF}
    else:
        roles = set()
    return [
        replica
        for replica in draft.desired
        if replica.role in roles and replica in draft.records and replica not in draft.completed
    ]


def _planned_restart(draft: Draft, first: Replica, message: str) -> None:
    """Running pods are re-created: a restart that is nobody's fault."""
    counts = draft.restarts.by_cause
    draft.restarts = draft.restarts.model_copy(
        update={
            "total": draft.restarts.total + 1,
            "by_cause": counts | {Cause.SCALED: counts.get(Cause.SCALED, 0) + 1},
        }
    )
    draft.failed = set()
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
