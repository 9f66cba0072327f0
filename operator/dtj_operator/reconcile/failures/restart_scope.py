"""Which pods a restart replaces.

Auto follows the strategy. Under every strategy but TPU that is the pods that failed: the
survivors re-form in place (MultiWorkerMirrored), or never notice (ParameterServer). A TPU slice
lives and dies as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import (
    TRAINING_ROLES,
    RestartScope,
    RuleAction,
    StrategyType,
)

if TYPE_CHECKING:
    from dtj_operator.api.enums import Role
    from dtj_operator.api.failure_policy_spec import FailureRule
    from dtj_operator.reconcile.state.replicas import Replica
    from dtj_operator.reconcile.state.scope import ReconcileScope

RULE_SCOPES = {
    RuleAction.RESTART_POD: RestartScope.POD,
    RuleAction.RESTART_ROLE: RestartScope.ROLE,
    RuleAction.RESTART_JOB: RestartScope.JOB,
}


def scope_of(scope: ReconcileScope, rule: FailureRule | None) -> RestartScope:
    """A rule's own scope, else the policy's."""
    if rule is not None and rule.action in RULE_SCOPES:
        return RULE_SCOPES[rule.action]
    restart_scope = scope.spec.failure_policy.restart_scope
    if restart_scope is not RestartScope.AUTO:
        return restart_scope
    whole = scope.strategy is not None and scope.strategy.type is StrategyType.TPU
    return RestartScope.JOB if whole else RestartScope.POD


def replaced(scope: ReconcileScope, restart_scope: RestartScope, role: Role, failed: set[Replica]) -> list[Replica]:
    """The slots that get a new pod; never one that is done."""
    return [
        replica
        for replica in scope.records
        if replica not in scope.completed
        and (
            replica in failed
            or (restart_scope is RestartScope.JOB and replica.role in TRAINING_ROLES)
            or (restart_scope is RestartScope.ROLE and replica.role is role)
        )
    ]
