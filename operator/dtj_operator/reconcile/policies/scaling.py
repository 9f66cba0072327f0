"""When the number of replicas of a running job changes.

What a new size means depends on the strategy: MultiWorkerMirrored re-forms as a whole (never a
mixed cluster), ParameterServer tells only its chief, None tells nobody. Whatever changes the
cluster raises the attempt. The highest indexes go first, and what is done stays done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import Cause, Charge, ConditionType, EventReason, Reason, Role, StrategyType
from dtj_operator.api.persisted_state import RootCause
from dtj_operator.api.status import LastIncident
from dtj_operator.reconcile.policies.created import describe_size, warn_of_growth

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.replicas import Replica, Replicas
    from dtj_operator.reconcile.state.scope import ReconcileScope


def scale(scope: ReconcileScope) -> None:
    """Take a new size; an incident that waits for its action goes first."""
    replicas, lifecycle = scope.replicas, scope.lifecycle
    if scope.plan.creation_blocked or not replicas.resized:
        return
    if scope.recovery.waits_to_act:
        scope.plan.block_creation("The job is scaled once its restart is under way.")
        return
    warn_of_growth(scope.job, scope.plan, len(replicas.records))
    before = lifecycle.strategy_type
    lifecycle.choose_strategy()
    recreated = _recreated(replicas, before, lifecycle.strategy_type)
    running = [replica for replica in recreated if replicas.records[replica].observed]
    replicas.next_attempt()
    replicas.resize()
    replicas.renew(recreated)
    message = f"The job now has {describe_size(scope.spec)}, attempt {replicas.attempt}."
    scope.plan.note(EventReason.SCALED, message)
    if running:
        _record_restart(scope, running[0], message)
    elif replicas.success_replica is None and scope.recovery.incident is not None:
        # Nobody is left to recover; a replica that comes back later starts from the beginning.
        scope.recovery.cancel()
        scope.conditions.set_false(ConditionType.RESTARTING, Reason.NO_REPLICAS, message)


def _recreated(replicas: Replicas, before: StrategyType | None, now: StrategyType | None) -> list[Replica]:
    """Return the replicas of the new size whose running pods have to learn of it by being created again."""
    if StrategyType.MULTI_WORKER_MIRRORED in {before, now}:
        roles = {Role.CHIEF, Role.WORKER}
    elif now is StrategyType.PARAMETER_SERVER:
        roles = {Role.CHIEF}
    else:
        roles = set()
    return [
        replica
        for replica in replicas.desired
        if replica.role in roles and replica in replicas.records and replica not in replicas.completed
    ]


def _record_restart(scope: ReconcileScope, first: Replica, message: str) -> None:
    """Record that running pods are created again: a restart that is free of charge."""
    root = RootCause(
        role=first.role,
        index=first.index,
        cause=Cause.SCALED,
        evidence=True,
        rank=0,
        charge=str(Charge.FREE),
        at=scope.now,
        message=message,
    )
    scope.recovery.record_scaling(root, scope.replicas.attempt)
    scope.recovery.remember(LastIncident(time=scope.now, cause=Cause.SCALED, message=message, action="Scaled"))
    scope.conditions.set_true(ConditionType.RESTARTING, Reason.SCALED, message)
