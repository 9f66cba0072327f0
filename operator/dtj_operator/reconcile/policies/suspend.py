"""Suspends a job, starts it and resumes it.

Charges and completed indexes outlive a suspension; startTime does not. What has failed is counted before it is stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import ConditionType, EventReason, Reason
from dtj_operator.reconcile.policies.container_restarts import count_container_restarts
from dtj_operator.reconcile.policies.created import warn_of_growth, warn_of_spec
from dtj_operator.reconcile.policies.failure_policy import matches_later, settle_before_suspension
from dtj_operator.reconcile.policies.validation import forget_refusal, unusable_spec, validate_while_suspended
from dtj_operator.reconcile.state.plan import Verdict

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.scope import ReconcileScope


def suspend(scope: ReconcileScope) -> Verdict | None:
    """Let a job have no unfinished pods, no service and no startTime while `spec.suspend` is set."""
    if not scope.spec.suspend:
        return None
    if (count_container_restarts(scope) or settle_before_suspension(scope)) is Verdict.SETTLED:
        return Verdict.SETTLED
    if matches_later(scope):
        return Verdict.SETTLED
    _accept_spec(scope)
    validate_while_suspended(scope)
    scope.lifecycle.choose_strategy()
    scope.lifecycle.stop()
    scope.replicas.clear()
    scope.recovery.cancel()
    scope.conditions.halt(Reason.SUSPENDED, "The job is suspended.")
    message = "The job is suspended; set spec.suspend to false to resume it."
    if scope.conditions.set_true(ConditionType.SUSPENDED, Reason.SUSPENDED, message):
        scope.plan.note(EventReason.SUSPENDED, message)
    return Verdict.SETTLED


def start(scope: ReconcileScope) -> None:
    """Set startTime before the first pod; a resume begins a new attempt.

    A job whose spec cannot be used does not start: once it has, the spec could not be corrected any more.
    """
    if scope.lifecycle.start_time is not None:
        return
    if scope.conditions.is_true(ConditionType.SUSPENDED):
        scope.replicas.next_attempt()
        message = f"The job is resumed, attempt {scope.replicas.attempt}."
        scope.conditions.set_false(ConditionType.SUSPENDED, Reason.RESUMED, message)
        scope.plan.note(EventReason.RESUMED, message)
    if unusable_spec(scope.job):
        return
    scope.lifecycle.start(scope.now)
    scope.lifecycle.choose_strategy()
    _accept_spec(scope)
    scope.replicas.start()


def _accept_spec(scope: ReconcileScope) -> None:
    """Take a spec that could be edited meanwhile, and warn again of what it implies."""
    lifecycle = scope.lifecycle
    edited = lifecycle.spec_changed and bool(lifecycle.spec_hash)
    lifecycle.accept_spec()
    if edited:
        forget_refusal(scope)
        warn_of_spec(scope.job, scope.plan)
    else:
        before = scope.job.status.replica_statuses
        warn_of_growth(scope.job, scope.plan, sum(counts.desired for counts in before.values()))
