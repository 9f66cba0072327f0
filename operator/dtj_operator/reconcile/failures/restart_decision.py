"""The restart decision, made once for each incident from its root cause: charged or free, restart or fail.

Order of authority: failure rules, then restartPolicy, then the limit of restarts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import Charge, Reason, RestartPolicy, RuleAction
from dtj_operator.reconcile.failures.exit_codes import ExitVerdict, exit_verdict
from dtj_operator.reconcile.failures.restart_backoff import end_delay, exponential_delay, free_delay
from dtj_operator.reconcile.failures.root_cause import describe_root_cause
from dtj_operator.reconcile.failures.termination import has_succeeded
from dtj_operator.reconcile.state.recovery import RestartDecision
from dtj_operator.reconcile.state.replicas import Replica

if TYPE_CHECKING:
    from collections.abc import Collection

    from dtj_operator.api.failure_policy_spec import FailurePolicy, FailureRule
    from dtj_operator.api.persisted_state import RootCause
    from dtj_operator.reconcile.state.job_pods import JobPods
    from dtj_operator.reconcile.state.recovery import FreeRestarts, Recovery
    from dtj_operator.reconcile.state.replicas import Replicas

FREE_IN_A_ROW = 10
"""So many restarts without evidence are free; the next one in the row is charged."""

FAIL_JOB = str(RuleAction.FAIL_JOB)
"""`lastIncident.action` of the incident that ends the job."""


def decide_restart(
    policy: FailurePolicy,
    root: RootCause,
    failed: Collection[Replica],
    step: int,
    recovery: Recovery,
    replicas: Replicas,
    pods: JobPods,
) -> RestartDecision:
    """Return whether a restart is charged or free, whether the job fails instead, and how long to wait before.

    `failed`: the replicas that failed with the root cause. `step`: the highest training step reported so far.
    """
    rule = rule_of(policy, root)
    row = recovery.free_restarts_in_a_row(root, step)
    charged = _is_charged(root, rule, row)
    job_fails, message = (
        _fails_by_rule(root, rule, replicas)
        or _fails_by_restart_policy(root, rule, failed, replicas, pods)
        or _fails_by_limit(policy, root, recovery, replicas, charged=charged)
        or (None, "")
    )
    # A rule that makes a restart free keeps the growing backoff; Ignore restarts as usual.
    grows_backoff = charged or (
        rule is not None and rule.action is not RuleAction.IGNORE and not rule.count_towards_limit
    )
    if job_fails is not None:
        delay = end_delay(policy.backoff, root)
    elif grows_backoff:
        delay = exponential_delay(policy.backoff, recovery.backoff.consecutive)
    else:
        delay = free_delay(policy.backoff, root, row)
    return RestartDecision(charged, grows_backoff, delay, job_fails, message)


def rule_of(policy: FailurePolicy, root: RootCause) -> FailureRule | None:
    """Return the failure rule that matched the root cause."""
    rules = policy.rules
    return rules[root.rule] if root.rule is not None and root.rule < len(rules) else None


def _is_charged(root: RootCause, rule: FailureRule | None, row: FreeRestarts) -> bool:
    if rule is not None and rule.action is not RuleAction.FAIL_JOB:
        return rule.action is not RuleAction.IGNORE and rule.count_towards_limit
    if root.charge == Charge.FREE_LIMITED:
        return row.limited >= FREE_IN_A_ROW
    return root.charge == Charge.CHARGED


def _fails_by_rule(root: RootCause, rule: FailureRule | None, replicas: Replicas) -> tuple[Reason, str] | None:
    if rule is None or rule.action is not RuleAction.FAIL_JOB:
        return None
    name = rule.name or f"rules[{root.rule}]"
    return Reason.FAILED_BY_RULE, f"Failure rule {name} fails the job: {describe_root_cause(root, replicas)}"


def _fails_by_restart_policy(
    root: RootCause, rule: FailureRule | None, failed: Collection[Replica], replicas: Replicas, pods: JobPods
) -> tuple[Reason, str] | None:
    if rule is not None:
        return None
    never = None if root.evidence else _under_never(root, failed, replicas, pods)
    if never is not None:
        return (
            Reason.RESTART_POLICY_NEVER,
            f"{replicas.pod_name(never)} failed under restartPolicy Never: {describe_root_cause(root, replicas)}",
        )
    if _is_permanent(root, replicas):
        told = describe_root_cause(root, replicas)
        return Reason.PERMANENT_FAILURE, f"Exit code {root.exit_code} is permanent under restartPolicy ExitCode: {told}"
    return None


def _fails_by_limit(
    policy: FailurePolicy, root: RootCause, recovery: Recovery, replicas: Replicas, *, charged: bool
) -> tuple[Reason, str] | None:
    if not charged or recovery.restarts.charged < policy.max_restarts:
        return None
    told, limit = describe_root_cause(root, replicas), policy.max_restarts
    return Reason.MAX_RESTARTS_EXCEEDED, f"All {limit} restarts of failurePolicy.maxRestarts are used: {told}"


def _under_never(root: RootCause, failed: Collection[Replica], replicas: Replicas, pods: JobPods) -> Replica | None:
    """Return the failed replica that may not be restarted: the root cause's own, else the first that failed with it."""
    own = (root.role, root.index)

    def ended_well(replica: Replica) -> bool:
        """Return whether a pod that should go on serving has ended with 0, which is no failure of its container."""
        if replica == own:
            return root.exit_code == 0 and root.charge == Charge.FREE_LIMITED
        pod = pods.current(replica)
        return pod is not None and has_succeeded(pod, pods.main_container(replica), node_lost=pods.node_lost(pod))

    never = [
        replica
        for replica in failed
        if replicas.restart_policy(replica) is RestartPolicy.NEVER and not ended_well(replica)
    ]
    return min(never, key=lambda replica: (replica != own, replica), default=None)


def _is_permanent(root: RootCause, replicas: Replicas) -> bool:
    """Return whether the root cause is an exit code that no restart cures.

    Not if there is evidence of a disruption, unless the pod itself reports that its program is to blame.
    """
    return (
        replicas.restart_policy(Replica(root.role, root.index)) is RestartPolicy.EXIT_CODE
        and (root.charge == Charge.CHARGED or not root.evidence)
        and root.exit_code is not None
        and exit_verdict(root.exit_code) is ExitVerdict.PERMANENT
    )
