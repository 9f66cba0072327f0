"""Incidents: everything that goes wrong within one recovery.

An incident opens at the first failure. While it waits, further failures join it and the
likeliest root cause is kept. Its action is taken once: the attempt goes up, pods are replaced.
Pods made before the action that fail after it belong to it and are replaced without charge; a
pod made by the action that fails opens the next incident. It closes when the job is Running.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.api.enums import ConditionType, EventReason, Reason, RestartPolicy, Role
from dtj_operator.api.persisted_state import OpenIncident
from dtj_operator.reconcile.failures.causes import cause_of
from dtj_operator.reconcile.failures.failure import Failure, find_failure
from dtj_operator.reconcile.failures.restart_decision import (
    FAIL_JOB,
    RestartDecision,
    decide_restart,
    describe_root,
    rule_of,
)
from dtj_operator.reconcile.failures.restart_scope import replaced, scope_of
from dtj_operator.reconcile.failures.root_cause import last_incident, root_cause, tally
from dtj_operator.reconcile.policies.completion import fail_job

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.plan import Verdict
    from dtj_operator.reconcile.state.replicas import Replica
    from dtj_operator.reconcile.state.scope import ReconcileScope

NAMED = 5
"""So many replaced pods are named in an event."""


def apply_failure_policy(scope: ReconcileScope) -> Verdict | None:
    """Note failures, and act on the open incident when it is due."""
    if scope.incident is not None and scope.incident.opened_at > scope.now:
        # The clock was set back, or is another machine's: what waits would wait for the difference too.
        scope.incident = scope.incident.model_copy(update={"opened_at": scope.now})
    for replica in list(scope.records):
        if replica.role is Role.EVALUATOR or replica in scope.completed:
            continue
        failure = find_failure(scope, replica)
        if failure is None:
            continue
        verdict = _take_in(scope, replica, failure)
        if verdict is not None:
            return verdict
    return _act_when_due(scope)


def _take_in(scope: ReconcileScope, replica: Replica, failure: Failure) -> Verdict | None:
    incident = scope.incident
    if incident is None:
        _open(scope, replica, failure)
    elif incident.acted_attempt is None:
        _join(scope, incident, replica, failure)
    elif scope.records[replica].attempt < incident.acted_attempt:
        return _follow(scope, incident, replica, failure)
    else:
        _open(scope, replica, failure)
    return None


def _open(scope: ReconcileScope, replica: Replica, failure: Failure) -> None:
    scope.incident = OpenIncident(opened_at=scope.now, root_cause=root_cause(scope, replica, failure))
    scope.failed = {replica}
    _announce(scope, replica, failure)


def _join(scope: ReconcileScope, incident: OpenIncident, replica: Replica, failure: Failure) -> None:
    """Another failure before the action, or more evidence about a known one."""
    known = replica in scope.failed
    if known and not (failure.disruption or failure.node_lost):
        return
    root = root_cause(scope, replica, failure)
    if (root.rank, root.at) < (incident.root_cause.rank, incident.root_cause.at):
        scope.incident = incident.model_copy(update={"root_cause": root})
    if not known:
        scope.failed.add(replica)
        _announce(scope, replica, failure)


def _follow(scope: ReconcileScope, incident: OpenIncident, replica: Replica, failure: Failure) -> Verdict | None:
    """A survivor that fell after the action: replaced within the incident, free of charge."""
    root = incident.root_cause
    _announce(scope, replica, failure)
    if (
        scope.restart_policy(replica) is RestartPolicy.NEVER
        and not root.evidence
        and not failure.evidence
        and root.rule is None
    ):
        own = root_cause(scope, replica, failure)
        judged = decide_restart(scope, own, {replica})
        if judged.fails is not None:
            scope.last_incident = last_incident(own, time=incident.opened_at, action=FAIL_JOB)
            return fail_job(scope, judged.fails, judged.message)
    scope.failed.add(replica)
    scope.renew(replica)
    scope.count_restart(replica.role)
    return None


def _act_when_due(scope: ReconcileScope) -> Verdict | None:
    incident = scope.incident
    if incident is None or incident.acted_attempt is not None:
        return None
    root = incident.root_cause
    told = describe_root(scope, root)
    if scope.failed.isdisjoint(scope.desired):
        scope.incident = None
        scope.expect_attempt(None)
        scope.conditions.set_false(
            ConditionType.RESTARTING, Reason.SCALED, f"{told}; the job is scaled to go on without it."
        )
        return None
    judged = decide_restart(scope, root, scope.failed)
    due = incident.opened_at + judged.wait
    if scope.now < due:
        scope.plan.requeue_at(due)
        scope.expect_attempt(due)
        scope.conditions.set_true(ConditionType.RESTARTING, root.cause, told)
        return None
    if judged.fails is not None:
        scope.last_incident = last_incident(root, time=incident.opened_at, action=FAIL_JOB)
        return fail_job(scope, judged.fails, judged.message)
    _act(scope, incident, judged)
    return None


def _act(scope: ReconcileScope, incident: OpenIncident, judged: RestartDecision) -> None:
    root, failed = incident.root_cause, scope.failed
    restart_scope = scope_of(scope, rule_of(scope, root))
    targets = replaced(scope, restart_scope, root.role, failed)
    scope.attempt += 1
    for replica in targets:
        if replica in failed or replica in scope.pods:
            scope.count_restart(replica.role)
        scope.renew(replica)
    told = describe_root(scope, root)
    names = ", ".join(str(replica) for replica in targets[:NAMED]) + " …" * (len(targets) > NAMED)
    cost = "charged" if judged.charged else "free of charge"
    tally(scope, judged, root)
    scope.incident = incident.model_copy(update={"acted_attempt": scope.attempt})
    scope.last_incident = last_incident(root, time=incident.opened_at, action=f"Restart{restart_scope}")
    scope.conditions.set_true(ConditionType.RESTARTING, root.cause, told)
    scope.plan.warn(
        EventReason.RESTARTING,
        f"{told}. Replacing {names} at attempt {scope.attempt}, {cost} "
        f"({scope.restarts.charged} of {scope.spec.failure_policy.max_restarts} used).",
    )


def _announce(scope: ReconcileScope, replica: Replica, failure: Failure) -> None:
    """One event for each failed pod."""
    name = scope.pod_name(replica)
    where = f" on node {failure.node}" if failure.node else ""
    code = failure.exit_code
    how = "is lost" if code is None else f"failed with exit code {code}"
    words = f": {failure.words}" if failure.words else ""
    scope.plan.warn(EventReason.POD_FAILED, f"Pod {name}{where} {how} ({cause_of(failure)}){words}")


def reset_backoff(scope: ReconcileScope) -> None:
    """After `resetAfterSeconds` of Running the backoff and the free row begin anew."""
    backoff = scope.backoff
    running = scope.conditions.get(ConditionType.RUNNING)
    if running is None or not running.holds:
        return
    if not (backoff.consecutive or backoff.free or backoff.free_limited):
        return
    seconds = scope.spec.failure_policy.backoff.reset_after_seconds
    since = running.last_transition_time + timedelta(seconds=seconds)
    if scope.now < since:
        scope.plan.requeue_at(since)
        return
    scope.backoff = backoff.model_copy(update={"consecutive": 0, "free": 0, "free_limited": 0})
