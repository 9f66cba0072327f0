"""When the number of replicas of a running job changes.

What a new size means depends on the strategy: MultiWorkerMirrored re-forms as a whole (never a
mixed cluster), ParameterServer tells only its chief, None tells nobody. Whatever changes the
cluster raises the attempt. The highest indexes go first, and what is done stays done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import (
    Cause,
    Charge,
    ConditionType,
    EventReason,
    Reason,
    Role,
    StrategyType,
)
from dtj_operator.api.persisted_state import OpenIncident, RootCause
from dtj_operator.api.status import LastIncident
from dtj_operator.reconcile.policies.created import warn_of_growth
from dtj_operator.reconcile.state.replicas import ReplicaRecord, success_replica

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.replicas import Replica
    from dtj_operator.reconcile.state.scope import ReconcileScope


def resized(scope: ReconcileScope) -> bool:
    """Whether the spec asks for other slots than the job runs with."""
    return scope.records.keys() != set(scope.desired)


def scale(scope: ReconcileScope) -> None:
    """Take over a new size; an incident that waits for its action goes first."""
    if scope.plan.creation_blocked or not resized(scope):
        return
    if scope.waits_to_act:
        scope.plan.block_creation("The job is scaled once its restart is under way.")
        return
    before = scope.strategy
    warn_of_growth(scope, len(scope.records))
    scope.choose_strategy()
    scope.attempt += 1
    told = _re_created(scope, before.type if before else None)
    wanted = dict.fromkeys(scope.desired)
    running = [replica for replica in told if scope.records[replica].observed]
    scope.records = {replica: r for replica, r in scope.records.items() if replica in wanted}
    for replica in wanted:
        scope.records.setdefault(replica, ReplicaRecord(scope.attempt, observed=False))
    for replica in told:
        scope.renew(replica)
    for replica in list(scope.container_restarts):
        if replica not in wanted:
            del scope.container_restarts[replica]
    scope.evaluators = {
        index: one for index, one in scope.evaluators.items() if index < scope.spec.replicas(Role.EVALUATOR)
    }
    sizes = ", ".join(f"{r.replicas} {role}" for role, r in scope.spec.replica_specs.items())
    message = f"The job now has {sizes}, attempt {scope.attempt}."
    scope.plan.note(EventReason.SCALED, message)
    if running:
        _planned_restart(scope, running[0], message)
    elif success_replica(scope) is None and scope.incident is not None:
        # Nobody is left to recover; who comes back one day starts anew.
        scope.incident = None
        scope.conditions.set_false(ConditionType.RESTARTING, Reason.NO_REPLICAS, message)


def _re_created(scope: ReconcileScope, before: StrategyType | None) -> list[Replica]:
    """Slots of the new size whose running pods have to learn of it by being made anew."""
    now = scope.strategy.type if scope.strategy else None
    if StrategyType.MULTI_WORKER_MIRRORED in {before, now}:
        roles = {Role.CHIEF, Role.WORKER}
    elif now is StrategyType.PARAMETER_SERVER:
        roles = {Role.CHIEF}
    else:
        roles = set()
    return [
        replica
        for replica in scope.desired
        if replica.role in roles and replica in scope.records and replica not in scope.completed
    ]


def _planned_restart(scope: ReconcileScope, first: Replica, message: str) -> None:
    """Running pods are re-created: a restart that is nobody's fault."""
    counts = scope.restarts.by_cause
    scope.restarts = scope.restarts.model_copy(
        update={
            "total": scope.restarts.total + 1,
            "by_cause": counts | {Cause.SCALED: counts.get(Cause.SCALED, 0) + 1},
        }
    )
    scope.failed = set()
    scope.incident = OpenIncident(
        opened_at=scope.now,
        root_cause=RootCause(
            role=first.role,
            index=first.index,
            cause=Cause.SCALED,
            evidence=True,
            rank=0,
            charge=str(Charge.FREE),
            at=scope.now,
            message=message,
        ),
        acted_attempt=scope.attempt,
    )
    scope.last_incident = LastIncident(time=scope.now, cause=Cause.SCALED, message=message, action="Scaled")
    scope.conditions.set_true(ConditionType.RESTARTING, Reason.SCALED, message)
