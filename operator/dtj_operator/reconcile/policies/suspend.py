"""Stopping a job without ending it, and starting it.

Charges and completed indexes outlive a suspension; startTime does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import ConditionType, EventReason, Reason
from dtj_operator.api.wire_model import whole_second
from dtj_operator.reconcile.failures.failure_rules import pattern_problem
from dtj_operator.reconcile.policies.created import accept_new_spec
from dtj_operator.reconcile.policies.validation import validate_while_suspended
from dtj_operator.reconcile.state.plan import Verdict
from dtj_operator.reconcile.state.replicas import ReplicaRecord

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.scope import Draft


def suspend(draft: Draft) -> Verdict | None:
    """While `spec.suspend` is set the job has no unfinished pods, no service, no startTime."""
    if not draft.spec.suspend:
        return None
    draft.start_time = None
    accept_new_spec(draft)
    validate_while_suspended(draft)
    draft.choose_strategy()
    draft.records, draft.container_restarts, draft.evaluators = {}, {}, {}
    draft.incident, draft.started = None, False
    draft.expect_attempt(None)
    if draft.first_running_time is None:
        draft.first_pod_time = None
    message = "The job is suspended; set spec.suspend to false to resume it."
    draft.set_false(ConditionType.RUNNING, Reason.SUSPENDED, "The job is suspended.")
    if draft.holds(ConditionType.RESTARTING):
        draft.set_false(ConditionType.RESTARTING, Reason.SUSPENDED, "The job is suspended.")
    if draft.set_true(ConditionType.SUSPENDED, Reason.SUSPENDED, message):
        draft.note(EventReason.SUSPENDED, message)
    return Verdict.SETTLED


def start(draft: Draft) -> None:
    """Set startTime before the first pod; a resume begins a new attempt.

    A job whose rules cannot be read does not start: once it has, they could not be corrected any more.
    """
    if draft.start_time is not None:
        return
    if draft.holds(ConditionType.SUSPENDED):
        draft.attempt += 1
        message = f"The job is resumed, attempt {draft.attempt}."
        draft.set_false(ConditionType.SUSPENDED, Reason.RESUMED, message)
        draft.note(EventReason.RESUMED, message)
    if pattern_problem(draft.spec.failure_policy.rules):
        return
    draft.start_time = whole_second(draft.now)
    draft.choose_strategy()
    accept_new_spec(draft)
    draft.records = {replica: ReplicaRecord(draft.attempt, observed=False) for replica in draft.desired}
