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
    from dtj_operator.reconcile.state.scope import ReconcileScope


def suspend(scope: ReconcileScope) -> Verdict | None:
    """While `spec.suspend` is set the job has no unfinished pods, no service, no startTime."""
    if not scope.spec.suspend:
        return None
    scope.start_time = None
    accept_new_spec(scope)
    validate_while_suspended(scope)
    scope.choose_strategy()
    scope.records, scope.container_restarts, scope.evaluators = {}, {}, {}
    scope.incident, scope.started = None, False
    scope.expect_attempt(None)
    if scope.first_running_time is None:
        scope.first_pod_time = None
    message = "The job is suspended; set spec.suspend to false to resume it."
    scope.conditions.halt(Reason.SUSPENDED, "The job is suspended.")
    if scope.conditions.set_true(ConditionType.SUSPENDED, Reason.SUSPENDED, message):
        scope.plan.note(EventReason.SUSPENDED, message)
    return Verdict.SETTLED


def start(scope: ReconcileScope) -> None:
    """Set startTime before the first pod; a resume begins a new attempt.

    A job whose rules cannot be read does not start: once it has, they could not be corrected any more.
    """
    if scope.start_time is not None:
        return
    if scope.conditions.is_true(ConditionType.SUSPENDED):
        scope.attempt += 1
        message = f"The job is resumed, attempt {scope.attempt}."
        scope.conditions.set_false(ConditionType.SUSPENDED, Reason.RESUMED, message)
        scope.plan.note(EventReason.RESUMED, message)
    if pattern_problem(scope.spec.failure_policy.rules):
        return
    scope.start_time = whole_second(scope.now)
    scope.choose_strategy()
    accept_new_spec(scope)
    scope.records = {replica: ReplicaRecord(scope.attempt, observed=False) for replica in scope.desired}
