"""What an incident costs and leads to, judged once, from its root cause.

Order of authority: failure rules, then restartPolicy, then the budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.api.enums import Charge, Reason, RestartPolicy, RuleAction
from dtj_operator.builders.metadata import pod_name
from dtj_operator.reconcile.failures.exit_codes import ExitVerdict, exit_verdict
from dtj_operator.reconcile.failures.restart_backoff import delay
from dtj_operator.reconcile.failures.termination import succeeded
from dtj_operator.reconcile.state.replicas import Replica

if TYPE_CHECKING:
    from dtj_operator.api.failure_policy_spec import FailureRule
    from dtj_operator.api.persisted_state import RootCause
    from dtj_operator.reconcile.state.scope import ReconcileScope

FREE_IN_A_ROW = 10
"""So many restarts without evidence are free; the next one in the row is charged."""

FAIL_JOB = str(RuleAction.FAIL_JOB)
"""`lastIncident.action` of the incident that ends the job."""


@dataclass(frozen=True, slots=True)
class Row:
    """Restarts free of charge in a row: without a stretch of Running and without a new step."""

    free: int
    unproven: int


@dataclass(frozen=True, slots=True)
class RestartDecision:
    """The outcome for one root cause."""

    charged: bool
    grows_backoff: bool
    """Whether the next waiting time doubles."""
    wait: timedelta
    """From the opening of the incident to the action."""
    fails: Reason | None = None
    """Why the job fails instead of being restarted."""
    message: str = ""


def free_restarts_in_a_row(scope: ReconcileScope, root: RootCause) -> Row:
    """The row so far; a higher reported step than at its last member ends it."""
    if max(highest_step(scope), root.step) > scope.backoff.step:
        return Row(0, 0)
    return Row(scope.backoff.free, scope.backoff.free_limited)


def decide_restart(scope: ReconcileScope, root: RootCause, failed: set[Replica]) -> RestartDecision:
    """Charged or free, restart or end, and how long to wait before."""
    rule = rule_of(scope, root)
    so_far = free_restarts_in_a_row(scope, root)
    charged = _charged(root, rule, so_far)
    fails, message = _ending(scope, root, rule, failed, charged=charged)
    # A rule that makes a restart free keeps the growing backoff; Ignore restarts as usual.
    grows_backoff = charged or (
        rule is not None and rule.action is not RuleAction.IGNORE and not rule.count_towards_limit
    )
    backoff = scope.spec.failure_policy.backoff
    initial = timedelta(seconds=backoff.initial_seconds)
    if fails is not None:
        wait = timedelta() if root.evidence and root.rank else initial
    elif grows_backoff:
        wait = delay(backoff.initial_seconds, backoff.max_seconds, scope.backoff.consecutive)
    elif root.evidence:
        wait = initial if so_far.free else timedelta()
    else:
        wait = initial
    return RestartDecision(charged, grows_backoff, wait, fails, message)


def rule_of(scope: ReconcileScope, root: RootCause) -> FailureRule | None:
    """The failure rule that matched the root cause."""
    rules = scope.spec.failure_policy.rules
    return rules[root.rule] if root.rule is not None and root.rule < len(rules) else None


def describe_root(scope: ReconcileScope, root: RootCause) -> str:
    """`train-worker-1 ended with exit code 1 (UserError): the last message`."""
    name = pod_name(scope.name, root.role, root.index)
    how = "was lost" if root.exit_code is None else f"ended with exit code {root.exit_code}"
    words = f": {root.message}" if root.message else ""
    return f"{name} {how} ({root.cause}){words}"


def _charged(root: RootCause, rule: FailureRule | None, so_far: Row) -> bool:
    if rule is not None and rule.action is not RuleAction.FAIL_JOB:
        return rule.action is not RuleAction.IGNORE and rule.count_towards_limit
    if root.charge == Charge.FREE_LIMITED:
        return so_far.unproven >= FREE_IN_A_ROW
    return root.charge == Charge.CHARGED


def _ending(
    scope: ReconcileScope, root: RootCause, rule: FailureRule | None, failed: set[Replica], *, charged: bool
) -> tuple[Reason | None, str]:
    """Why the job fails; None to restart."""
    told = describe_root(scope, root)
    policy = scope.spec.failure_policy
    if rule is not None:
        if rule.action is RuleAction.FAIL_JOB:
            name = rule.name or f"rules[{root.rule}]"
            return Reason.FAILED_BY_RULE, f"Failure rule {name} fails the job: {told}"
    elif not root.evidence and (never := _under_never(scope, root, failed)):
        return Reason.RESTART_POLICY_NEVER, f"{scope.pod_name(never)} failed under restartPolicy Never: {told}"
    elif _permanent(scope, root):
        return (
            Reason.PERMANENT_FAILURE,
            f"Exit code {root.exit_code} is permanent under restartPolicy ExitCode: {told}",
        )
    if charged and scope.restarts.charged >= policy.max_restarts:
        return (
            Reason.MAX_RESTARTS_EXCEEDED,
            f"All {policy.max_restarts} restarts of failurePolicy.maxRestarts are used: {told}",
        )
    return None, ""


def _under_never(scope: ReconcileScope, root: RootCause, failed: set[Replica]) -> Replica | None:
    """The failed replica that may not be restarted: the root cause's own, else the first that fell with it."""
    never = [
        replica
        for replica in failed
        if scope.restart_policy(replica) is RestartPolicy.NEVER and not _ended_with_0(scope, root, replica)
    ]
    return min(never, key=lambda replica: (replica != (root.role, root.index), replica), default=None)


def _ended_with_0(scope: ReconcileScope, root: RootCause, replica: Replica) -> bool:
    """Whether a pod that should go on serving has ended well, which is no failure of its container."""
    if replica == (root.role, root.index):
        return root.exit_code == 0
    pod = scope.current(replica)
    return pod is not None and succeeded(pod, scope.main(replica))


def _permanent(scope: ReconcileScope, root: RootCause) -> bool:
    """Whether the root cause is a code that no restart mends; a disruption is the root cause unless the program
    itself is to blame in so many words.
    """
    return (
        scope.restart_policy(Replica(root.role, root.index)) is RestartPolicy.EXIT_CODE
        and (root.charge == Charge.CHARGED or not root.evidence)
        and root.exit_code is not None
        and exit_verdict(root.exit_code) is ExitVerdict.PERMANENT
    )


def highest_step(scope: ReconcileScope) -> int:
    """The highest step that was ever reported."""
    return (scope.progress.step or 0) if scope.progress else 0
