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
from dtj_operator.api.status import OpenIncident
from dtj_operator.reconcile.failures.causes import cause_of
from dtj_operator.reconcile.failures.failure import Failure, failure_in
from dtj_operator.reconcile.failures.restart_decision import FAIL_JOB, Judgement, describe_root, judge, rule_of
from dtj_operator.reconcile.failures.restart_scope import replaced, scope_of
from dtj_operator.reconcile.failures.root_cause import last_incident, root_of, tally
from dtj_operator.reconcile.policies.completion import fail_job

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.plan import Verdict
    from dtj_operator.reconcile.state.replicas import Slot
    from dtj_operator.reconcile.state.scope import Draft

NAMED = 5
"""So many replaced pods are named in an event."""


def recovering(draft: Draft) -> Verdict | None:
    """Note failures, and act on the open incident when it is due."""
    if draft.incident is not None and draft.incident.opened_at > draft.now:
        # The clock was set back, or is another machine's: what waits would wait for the difference too.
        draft.incident = draft.incident.model_copy(update={"opened_at": draft.now})
    for slot in list(draft.slots):
        if slot.role is Role.EVALUATOR or slot in draft.completed:
            continue
        failure = failure_in(draft, slot)
        if failure is None:
            continue
        verdict = _take_in(draft, slot, failure)
        if verdict is not None:
            return verdict
    return _act_when_due(draft)


def _take_in(draft: Draft, slot: Slot, failure: Failure) -> Verdict | None:
    incident = draft.incident
    if incident is None:
        _open(draft, slot, failure)
    elif incident.acted_attempt is None:
        _join(draft, incident, slot, failure)
    elif draft.slots[slot].attempt < incident.acted_attempt:
        return _follow(draft, incident, slot, failure)
    else:
        _open(draft, slot, failure)
    return None


def _open(draft: Draft, slot: Slot, failure: Failure) -> None:
    draft.incident = OpenIncident(opened_at=draft.now, root=root_of(draft, slot, failure))
    draft.fallen = {slot}
    _announce(draft, slot, failure)


def _join(draft: Draft, incident: OpenIncident, slot: Slot, failure: Failure) -> None:
    """Another failure before the action, or more evidence about a known one."""
    known = slot in draft.fallen
    if known and not (failure.disruption or failure.node_lost):
        return
    root = root_of(draft, slot, failure)
    if (root.rank, root.at) < (incident.root.rank, incident.root.at):
        draft.incident = incident.model_copy(update={"root": root})
    if not known:
        draft.fallen.add(slot)
        _announce(draft, slot, failure)


def _follow(draft: Draft, incident: OpenIncident, slot: Slot, failure: Failure) -> Verdict | None:
    """A survivor that fell after the action: replaced within the incident, free of charge."""
    root = incident.root
    _announce(draft, slot, failure)
    if (
        draft.restart_policy(slot) is RestartPolicy.NEVER
        and not root.evidence
        and not failure.evidence
        and root.rule is None
    ):
        own = root_of(draft, slot, failure)
        judged = judge(draft, own, {slot})
        if judged.fails is not None:
            draft.last_incident = last_incident(own, time=incident.opened_at, action=FAIL_JOB)
            return fail_job(draft, judged.fails, judged.message)
    draft.fallen.add(slot)
    draft.renew(slot)
    draft.count_restart(slot.role)
    return None


def _act_when_due(draft: Draft) -> Verdict | None:
    incident = draft.incident
    if incident is None or incident.acted_attempt is not None:
        return None
    root = incident.root
    told = describe_root(draft, root)
    if draft.fallen.isdisjoint(draft.wanted):
        draft.incident = None
        draft.expect_attempt(None)
        draft.set_false(ConditionType.RESTARTING, Reason.SCALED, f"{told}; the job is scaled to go on without it.")
        return None
    judged = judge(draft, root, draft.fallen)
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


def _act(draft: Draft, incident: OpenIncident, judged: Judgement) -> None:
    root, failed = incident.root, draft.fallen
    scope = scope_of(draft, rule_of(draft, root))
    targets = replaced(draft, scope, root.role, failed)
    draft.attempt += 1
    for slot in targets:
        if slot in failed or slot in draft.pods:
            draft.count_restart(slot.role)
        draft.renew(slot)
    told = describe_root(draft, root)
    names = ", ".join(str(slot) for slot in targets[:NAMED]) + " …" * (len(targets) > NAMED)
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


def _announce(draft: Draft, slot: Slot, failure: Failure) -> None:
    """One event for each failed pod."""
    name = draft.pod_name(slot)
    where = f" on node {failure.node}" if failure.node else ""
    code = failure.exit_code
    how = "is lost" if code is None else f"failed with exit code {code}"
    words = f": {failure.words}" if failure.words else ""
    draft.warn(EventReason.POD_FAILED, f"Pod {name}{where} {how} ({cause_of(failure)}){words}")


def forgiven(draft: Draft) -> None:
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
