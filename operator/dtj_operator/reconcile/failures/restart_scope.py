"""The replicas that a restart replaces.

Auto follows the strategy. Under every strategy but TPU that is the pods that failed: the
survivors re-form in place (MultiWorkerMirrored), or never notice (ParameterServer). A TPU slice
lives and dies as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import TRAINING_ROLES, RestartScope, RuleAction, StrategyType

if TYPE_CHECKING:
    from dtj_operator.api.enums import Role
    from dtj_operator.api.failure_policy_spec import FailurePolicy, FailureRule
    from dtj_operator.reconcile.state.recovery import Recovery
    from dtj_operator.reconcile.state.replicas import Replica, Replicas

RULE_SCOPES = {
    RuleAction.RESTART_POD: RestartScope.POD,
    RuleAction.RESTART_ROLE: RestartScope.ROLE,
    RuleAction.RESTART_JOB: RestartScope.JOB,
}


def restart_scope(policy: FailurePolicy, rule: FailureRule | None, strategy: StrategyType | None) -> RestartScope:
    """Return a rule's own scope, else the policy's."""
    if rule is not None and rule.action in RULE_SCOPES:
        return RULE_SCOPES[rule.action]
    if policy.restart_scope is not RestartScope.AUTO:
        return policy.restart_scope
    return RestartScope.JOB if strategy is StrategyType.TPU else RestartScope.POD


def replicas_to_replace(scope: RestartScope, role: Role, recovery: Recovery, replicas: Replicas) -> list[Replica]:
    """Return the replicas that get a new pod; never one that is completed. `role`: the root cause's."""
    return [
        replica
        for replica in replicas.records
        if replica not in replicas.completed
        and (
            replica in recovery.failed
            or (scope is RestartScope.JOB and replica.role in TRAINING_ROLES)
            or (scope is RestartScope.ROLE and replica.role is role)
        )
    ]
