"""Incidents: everything that goes wrong within one recovery.

An incident opens at the first failure. While it waits, further failures join it and the
likeliest root cause is kept. Its action is taken once: the attempt goes up, pods are replaced.
Pods made before the action that fail after it belong to it and are replaced without charge; a
pod made by the action that fails opens the next incident. It closes when the job is Running.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.api.enums import ConditionType, EventReason, Reason, RestartPolicy
from dtj_operator.reconcile.failures.causes import cause_of
from dtj_operator.reconcile.failures.failure import find_failures, rejected
from dtj_operator.reconcile.failures.failure_rules import matching_rule
from dtj_operator.reconcile.failures.restart_backoff import repeated_delay
from dtj_operator.reconcile.failures.restart_decision import FAIL_JOB, decide_restart, rule_of
from dtj_operator.reconcile.failures.restart_scope import replicas_to_replace, restart_scope
from dtj_operator.reconcile.failures.root_cause import describe_root_cause, last_incident, root_cause
from dtj_operator.reconcile.policies.completion import fail_job
from dtj_operator.reconcile.state.plan import Verdict

if TYPE_CHECKING:
    from dtj_operator.api.enums import Role
    from dtj_operator.api.persisted_state import OpenIncident, RootCause
    from dtj_operator.reconcile.failures.failure import Failure
    from dtj_operator.reconcile.state.recovery import RestartDecision
    from dtj_operator.reconcile.state.replicas import Replica
    from dtj_operator.reconcile.state.scope import ReconcileScope

SUSPENDED = "Suspended"
"""`lastIncident.action` of an incident that a suspension ended before its restart."""
MATCHES_AT_ONCE = 4
"""So many failures of a job are compared with patterns in one pass."""
NAMED = 5
"""So many replaced pods are named in an event."""


def reset_backoff(scope: ReconcileScope) -> None:
    """Reset the backoff and the free restarts in a row after `resetAfterSeconds` of Running."""
    backoff, running = scope.recovery.backoff, scope.conditions.get(ConditionType.RUNNING)
    if running is None or not running.holds or not (backoff.consecutive or backoff.free or backoff.free_limited):
        return
    due = running.last_transition_time + timedelta(seconds=scope.spec.failure_policy.backoff.reset_after_seconds)
    if scope.now < due:
        scope.plan.requeue_at(due)
    else:
        scope.recovery.reset_backoff()


def apply_failure_policy(scope: ReconcileScope) -> Verdict | None:
    """Collect failures in an incident, and act on it once when it is due: restart, or let the job fail."""
    policy, recovery, replicas = scope.spec.failure_policy, scope.recovery, scope.replicas
    if _collect(scope) is Verdict.SETTLED:
        return Verdict.SETTLED
    incident = recovery.incident
    if incident is None or not recovery.waits_to_act:
        return None
    root = incident.root_cause
    told = describe_root_cause(root, replicas)
    if recovery.failed <= replicas.completed:
        recovery.cancel()
        scope.conditions.set_false(ConditionType.RESTARTING, Reason.RECOVERED, f"{told}; its training is done.")
        return None
    if recovery.failed.isdisjoint(replicas.desired):
        recovery.cancel()
        message = f"{told}; the job is scaled to go on without it."
        scope.conditions.set_false(ConditionType.RESTARTING, Reason.SCALED, message)
        return None
    decision = decide_restart(policy, root, recovery.failed, scope.reported_step, recovery, replicas, scope.pods)
    due = incident.opened_at + _delay(scope, decision)
    if scope.now < due:
        scope.plan.requeue_at(due)
        recovery.next_attempt_at(due)
        scope.conditions.set_true(ConditionType.RESTARTING, root.cause, told)
    elif decision.job_fails is not None:
        return _fail(scope, root, decision.job_fails, decision.message)
    else:
        _restart(scope, incident, decision)
    return None


def _delay(scope: ReconcileScope, decision: RestartDecision) -> timedelta:
    """Return how long the incident waits for its action; a scale-down ends the wait."""
    if decision.job_fails is not None:
        return decision.delay
    if scope.replicas.shrinks:
        return timedelta()
    repeated = repeated_delay(scope.spec.failure_policy.backoff, scope.recovery.most_repeated_ends())
    return max(decision.delay, repeated)


def settle_before_suspension(scope: ReconcileScope) -> Verdict | None:
    """Decide the incident that waits for its action: the suspension takes the place of the restart.

    Suspending resets no count: the incident is counted as if the job were restarted, and the job fails where it would
    have failed.
    """
    recovery, replicas = scope.recovery, scope.replicas
    if _collect(scope) is Verdict.SETTLED:
        return Verdict.SETTLED
    incident = recovery.incident
    if incident is None or not recovery.waits_to_act or recovery.failed <= replicas.completed:
        return None
    root, step = incident.root_cause, scope.reported_step
    decision = decide_restart(scope.spec.failure_policy, root, recovery.failed, step, recovery, replicas, scope.pods)
    if decision.job_fails is not None:
        return _fail(scope, root, decision.job_fails, decision.message)
    ended = recovery.failed - replicas.completed
    recovery.count_ends(ended)
    for replica in ended:
        recovery.count_replaced(replica.role)
    recovery.record(root, decision, step)
    recovery.remember(last_incident(root, time=incident.opened_at, action=SUSPENDED))
    return None


def _collect(scope: ReconcileScope) -> Verdict | None:
    """Add what has failed since the last pass to incidents. Failure rules are for the root cause alone."""
    recovery = scope.recovery
    recovery.correct_clock()
    likeliest: Failure | None = None
    for replica, failure in find_failures(scope.pods, scope.replicas):
        if recovery.outlived(scope.replicas.records[replica]):
            if _follow(scope, replica, failure) is Verdict.SETTLED:
                return Verdict.SETTLED
        elif _add_failure(scope, replica, failure):
            likeliest = failure
    if likeliest is not None and recovery.incident is not None:
        recovery.match_rule(match_rule(scope, recovery.incident.root_cause.role, likeliest))
    return None


def _add_failure(scope: ReconcileScope, replica: Replica, failure: Failure) -> bool:
    """Open an incident with a failure, or let it join the one that waits. Returns whether it is the root cause now."""
    recovery = scope.recovery
    known = recovery.waits_to_act and replica in recovery.failed
    if known and not failure.disrupted:
        return False
    if not known:
        _announce(scope, replica, failure)
        count_rejection(scope, replica, failure)
    return recovery.add(replica, root_cause(replica, failure, scope.now))


def count_rejection(scope: ReconcileScope, replica: Replica, failure: Failure) -> None:
    """Count it where the node's kubelet has refused to run the pod."""
    if failure.node and rejected(failure.pod_reason):
        scope.rejections.count(replica, failure.node)


def match_rule(scope: ReconcileScope, role: Role, failure: Failure) -> int | None:
    """Return the failure rule that matches; None when none does."""
    rules = scope.spec.failure_policy.rules
    scope.matched_failures += any(rule.message_pattern for rule in rules)
    return matching_rule(rules, role, failure)


def matches_later(scope: ReconcileScope) -> bool:
    """Return whether further failures are compared with patterns in the next pass, so that other jobs have their turn.

    Requests that pass.
    """
    exhausted = scope.matched_failures >= MATCHES_AT_ONCE
    if exhausted:
        scope.plan.requeue_at(scope.now)
    return exhausted


def _follow(scope: ReconcileScope, replica: Replica, failure: Failure) -> Verdict | None:
    """Replace a survivor that fails after the action: within the incident, free of charge. Under Never the job fails,
    unless the cluster or a failure rule is behind either failure.
    """
    policy, recovery, replicas = scope.spec.failure_policy, scope.recovery, scope.replicas
    may_fail = replicas.restart_policy(replica) is RestartPolicy.NEVER and not (recovery.excused or failure.evidence)
    if may_fail and matches_later(scope):
        return None
    _announce(scope, replica, failure)
    count_rejection(scope, replica, failure)
    if may_fail:
        root = root_cause(replica, failure, scope.now, match_rule(scope, replica.role, failure))
        decision = decide_restart(policy, root, {replica}, scope.reported_step, recovery, replicas, scope.pods)
        if decision.job_fails is not None:
            return _fail(scope, root, decision.job_fails, decision.message)
    replicas.renew([replica])
    recovery.follow(replica)
    return None


def _fail(scope: ReconcileScope, root: RootCause, reason: Reason, message: str) -> Verdict:
    incident = scope.recovery.incident
    opened_at = incident.opened_at if incident else root.at
    scope.recovery.remember(last_incident(root, time=opened_at, action=FAIL_JOB))
    return fail_job(scope, reason, message)


def _restart(scope: ReconcileScope, incident: OpenIncident, decision: RestartDecision) -> None:
    """Replace pods at a new attempt, and count the restart."""
    policy, root, recovery, replicas = scope.spec.failure_policy, incident.root_cause, scope.recovery, scope.replicas
    extent = restart_scope(policy, rule_of(policy, root), scope.lifecycle.strategy_type)
    replaced = replicas_to_replace(extent, root.role, recovery, replicas)
    replicas.next_attempt()
    replicas.renew(replaced)
    for replica in replaced:
        if replica in recovery.failed or replica in scope.pods.owned:
            recovery.count_replaced(replica.role)
    recovery.count_ends(recovery.failed)
    recovery.record(root, decision, scope.reported_step)
    recovery.act(replicas.attempt)
    recovery.remember(last_incident(root, time=incident.opened_at, action=f"Restart{extent}"))
    told = describe_root_cause(root, replicas)
    scope.conditions.set_true(ConditionType.RESTARTING, root.cause, told)
    names = ", ".join(str(replica) for replica in replaced[:NAMED]) + " …" * (len(replaced) > NAMED)
    cost = "charged" if decision.charged else "free of charge"
    scope.plan.warn(
        EventReason.RESTARTING,
        f"{told}. Replacing {names} at attempt {replicas.attempt}, {cost} "
        f"({recovery.restarts.charged} of {policy.max_restarts} used).",
    )


def _announce(scope: ReconcileScope, replica: Replica, failure: Failure) -> None:
    """Post one event for each failed pod."""
    name = scope.replicas.pod_name(replica)
    where = f" on node {failure.node}" if failure.node else ""
    code = failure.exit_code
    how = "is lost" if code is None else f"failed with exit code {code}"
    words = f": {failure.words}" if failure.words else ""
    cause = cause_of(failure)
    scope.plan.report_failed_pod(replica.role, cause, f"Pod {name}{where} {how} ({cause}){words}")
