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
    from dtj_operator.reconcile.state.scope import Draft

NAMED = 5
"""So many replaced pods are named in an event."""


def apply_failure_policy(draft: Draft) -> Verdict | None:
    """Note failures, and act on the open incident when it is due."""
    if draft.incident is not None and draft.incident.opened_at > draft.now:
        # The clock was set back, or is another machine's: what waits would wait for the difference too.
        draft.incident = draft.incident.model_copy(update={"opened_at": draft.now})
    for replica in list(draft.records):
        if replica.role is Role.EVALUATOR or replica in draft.completed:
            continue
        failure = find_failure(draft, replica)
        if failure is None:
            continue
        verdict = _take_in(draft, replica, failure)
        if verdict is not None:
            return verdict
    return _act_when_due(draft)


def _take_in(draft: Draft, replica: Replica, failure: Failure) -> Verdict | None:
    incident = draft.incident
    if incident is None:
        _open(draft, replica, failure)
    elif incident.acted_attempt is None:
        _join(draft, incident, replica, failure)
    elif draft.records[replica].attempt < incident.acted_attempt:
        return _follow(draft, incident, replica, failure)
    else:
        _open(draft, replica, failure)
    return None


def _open(draft: Draft, replica: Replica, failure: Failure) -> None:
    draft.incident = OpenIncident(opened_at=draft.now, root=root_cause(draft, replica, failure))
    draft.failed = {replica}
    _announce(draft, replica, failure)


def _join(draft: Draft, incident: OpenIncident, replica: Replica, failure: Failure) -> None:
    """Another failure before the action, or more evidence about a known one."""
    known = replica in draft.failed
    if known and not (failure.disruption or failure.node_lost):
        return
    root = root_cause(draft, replica, failure)
    if (root.rank, root.at) < (incident.root.rank, incident.root.at):
        draft.incident = incident.model_copy(update={"root": root})
    if not known:
        draft.failed.add(replica)
        _announce(draft, replica, failure)


def _follow(draft: Draft, incident: OpenIncident, replica: Replica, failure: Failure) -> Verdict | None:
    """A survivor that fell after the action: replaced within the incident, free of charge."""
    root = incident.root
    _announce(draft, replica, failure)
    if (
        draft.restart_policy(replica) is RestartPolicy.NEVER
        and not root.evidence
        and not failure.evidence
        and root.rule is None
    ):
        own = root_cause(draft, replica, failure)
        judged = decide_restart(draft, own, {replica})
        if judged.fails is not None:
            draft.last_incident = last_incident(own, time=incident.opened_at, action=FAIL_JOB)
            return fail_job(draft, judged.fails, judged.message)
    draft.failed.add(replica)
    draft.renew(replica)
    draft.count_restart(replica.role)
    return None


def _act_when_due(draft: Draft) -> Verdict | None:
    incident = draft.incident
    if incident is None or incident.acted_attempt is not None:
        return None
    root = incident.root
    told = describe_root(draft, root)
    if draft.failed.isdisjoint(draft.desired):
        draft.incident = None
        draft.expect_attempt(None)
        draft.set_false(ConditionType.RESTARTING, Reason.SCALED, f"{told}; the job is scaled to go on without it.")
        return None
    judged = decide_restart(draft, root, draft.failed)
    due = incident.opened_at + judged.wait
    if draft.now < due:
        draft.check_at(due)
        draft.expect_attempt(due)
        draft.set_true(ConditionType.RESTARTING, root.cause, told)
        return None
    if judged.fails is not None:
        draft.last_incident = last_incident(root, time=incident.opened_at, action=FAIL_JOB)
        return fail_job(draft, judged.fails, judged.message)
    _act(draft, incident, judged)
    return None


def _act(draft: Draft, incident: OpenIncident, judged: RestartDecision) -> None:
    root, failed = incident.root, draft.failed
    scope = scope_of(draft, rule_of(draft, root))
    targets = replaced(draft, scope, root.role, failed)
    draft.attempt += 1
    for replica in targets:
        if replica in failed or replica in draft.pods:
            draft.count_restart(replica.role)
        draft.renew(replica)
    told = describe_root(draft, root)
    names = ", ".join(str(replica) for replica in targets[:NAMED]) + " …" * (len(targets) > NAMED)
    cost = "charged" if judged.charged else "free of charge"
    tally(draft, judged, root)
    draft.incident = incident.model_copy(update={"acted_attempt": draft.attempt})
    draft.last_incident = last_incident(root, time=incident.opened_at, action=f"Restart{scope}")
    draft.set_true(ConditionType.RESTARTING, root.cause, told)
    draft.warn(
        EventReason.RESTARTING,
        f"{told}. Replacing {names} at attempt {draft.attempt}, {cost} "
        f"({draft.restarts.charged} of {draft.spec.failure_policy.max_restarts} used).",
    )


def _announce(draft: Draft, replica: Replica, failure: Failure) -> None:
    """One event for each failed pod."""
    name = draft.pod_name(replica)
    where = f" on node {failure.node}" if failure.node else ""
    code = failure.exit_code
    how = "is lost" if code is None else f"failed with exit code {code}"
    words = f": {failure.words}" if failure.words else ""
    draft.warn(EventReason.POD_FAILED, f"Pod {name}{where} {how} ({cause_of(failure)}){words}")


def reset_backoff(draft: Draft) -> None:
    """After `resetAfterSeconds` of Running the backoff and the free row begin anew."""
    backoff = draft.backoff
    running = draft.condition(ConditionType.RUNNING)
    if running is None or not running.holds:
        return
    if not (backoff.consecutive or backoff.free or backoff.unproven):
        return
    seconds = draft.spec.failure_policy.backoff.reset_after_seconds
    since = running.last_transition_time + timedelta(seconds=seconds)
    if draft.now < since:
        draft.check_at(since)
        return
    draft.backoff = backoff.model_copy(update={"consecutive": 0, "free": 0, "unproven": 0})
