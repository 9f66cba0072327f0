"""Checks of a spec that only the operator can make; the API server refuses everything else that is wrong."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.api.enums import ConditionType, EventReason, Reason
from dtj_operator.builders.tf_config import tf_config_problem
from dtj_operator.reconcile.failures.failure_rules import pattern_problem
from dtj_operator.reconcile.state.blocked_writes import BlockedReason, unanswered
from dtj_operator.reconcile.state.plan import Verdict

if TYPE_CHECKING:
    from dtj_operator.api.job import Job
    from dtj_operator.reconcile.state.scope import ReconcileScope


PROFILE_AGAIN = timedelta(seconds=10)
"""When a profile that cannot be used is looked at again: nothing watches the profiles."""


def reject_unreadable_spec(scope: ReconcileScope) -> Verdict | None:
    """Report a spec that an older schema accepted and this version cannot read, and touch nothing."""
    if not scope.job.problem:
        return None
    message = f"{scope.job.problem}; correct the spec."
    _set_invalid(scope, Reason.INVALID, message)
    return Verdict.SETTLED


def validate(scope: ReconcileScope) -> None:
    """Set or clear `Invalid`; no pod is made from an invalid spec."""
    reason, message = unusable_spec(scope.job) or _problem(scope)
    if reason is None:
        invalid = scope.conditions.get(ConditionType.INVALID)
        if invalid and invalid.holds and not unanswered(invalid.reason, scope.snapshot, scope.pods, scope.replicas):
            _set_valid(scope)
        return
    _set_invalid(scope, reason, message)
    if reason is Reason.BAD_PROFILE:
        scope.plan.requeue_at(scope.now + PROFILE_AGAIN)
    if reason is not Reason.INVALID:
        scope.plan.block_creation(message)


def validate_while_suspended(scope: ReconcileScope) -> None:
    """Check the spec alone: what the server refused stands until the spec is another."""
    bad, invalid = unusable_spec(scope.job), scope.conditions.get(ConditionType.INVALID)
    if bad is not None:
        _set_invalid(scope, *bad)
    elif invalid and invalid.holds and invalid.reason != Reason.INVALID:
        _set_valid(scope)


def forget_refusal(scope: ReconcileScope) -> None:
    """Clear `Invalid` if the server refused the spec that stood before this one."""
    if scope.conditions.is_true(ConditionType.INVALID, Reason.INVALID):
        _set_valid(scope)


def _set_valid(scope: ReconcileScope) -> None:
    scope.conditions.set_false(ConditionType.INVALID, Reason.VALID, "The spec can be acted upon.")


def _set_invalid(scope: ReconcileScope, reason: Reason, message: str) -> None:
    if scope.conditions.set_true(ConditionType.INVALID, reason, message):
        scope.plan.warn(EventReason.INVALID, message)


def unusable_spec(job: Job) -> tuple[Reason, str] | None:
    """Return reason and sentence if nothing can be made from the spec, which the schema cannot see."""
    words = pattern_problem(job.spec.failure_policy.rules)
    if words:
        return Reason.BAD_PATTERN, f"{words}."
    if job.profile_problem:
        return Reason.BAD_PROFILE, f"{job.profile_problem}."
    words = tf_config_problem(job)
    return (Reason.TF_CONFIG_TOO_LONG, f"{words}.") if words else None


def _problem(scope: ReconcileScope) -> tuple[Reason | None, str]:
    if _drifted(scope):
        return (
            Reason.SPEC_CHANGED,
            (
                "The spec was changed while the job runs, and no pod is made from it: undo the "
                "change, or suspend the job and resume it to start with the new spec."
            ),
        )
    for blocked in scope.snapshot.blocked_writes:
        # A refusal of an earlier spec says nothing new.
        current = blocked.generation == scope.job.generation or scope.conditions.is_true(ConditionType.INVALID)
        if blocked.kind is BlockedReason.INVALID and current:
            return (
                Reason.INVALID,
                f"The API server refuses {blocked.target}: {blocked.message}",
            )
    return None, ""


def _drifted(scope: ReconcileScope) -> bool:
    """Return whether the spec is another than the one the job was started with; a generation is compared once."""
    if scope.lifecycle.start_time is None or not scope.lifecycle.spec_hash:
        return False
    if scope.job.status.observed_generation == scope.job.generation:
        return scope.conditions.is_true(ConditionType.INVALID, Reason.SPEC_CHANGED)
    return scope.lifecycle.spec_changed
