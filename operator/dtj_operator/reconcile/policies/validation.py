"""What only the operator can see to be wrong with a spec; the API server refuses the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import ConditionType, EventReason, Reason
from dtj_operator.reconcile.failures.failure_rules import pattern_problem
from dtj_operator.reconcile.state.blocked_writes import BlockedReason, unanswered

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.scope import ReconcileScope


def validate(scope: ReconcileScope) -> None:
    """Set or clear `Invalid`; no pod is made from an invalid spec."""
    reason, message = _bad_pattern(scope) or _problem(scope)
    if reason is None:
        told = scope.conditions.get(ConditionType.INVALID)
        if told and told.holds and not unanswered(scope, told.reason):
            _valid(scope)
        return
    _invalid(scope, reason, message)
    if reason is not Reason.INVALID:
        scope.plan.block_creation(message)


def validate_while_suspended(scope: ReconcileScope) -> None:
    """Of a suspended job only the patterns can be judged; what the server refused stands until the spec is another."""
    told, bad = scope.conditions.get(ConditionType.INVALID), _bad_pattern(scope)
    if bad is not None:
        _invalid(scope, *bad)
    elif told and told.holds and told.reason != Reason.INVALID:
        _valid(scope)


def forget_refusal(scope: ReconcileScope) -> None:
    """The spec is another now than the one that the server refused, if it did."""
    told = scope.conditions.get(ConditionType.INVALID)
    if told and told.holds and told.reason == Reason.INVALID:
        _valid(scope)


def _valid(scope: ReconcileScope) -> None:
    scope.conditions.set_false(ConditionType.INVALID, Reason.VALID, "The spec can be acted upon.")


def _invalid(scope: ReconcileScope, reason: Reason, message: str) -> None:
    if scope.conditions.set_true(ConditionType.INVALID, reason, message):
        scope.plan.warn(EventReason.INVALID, message)


def _bad_pattern(scope: ReconcileScope) -> tuple[Reason, str] | None:
    words = pattern_problem(scope.spec.failure_policy.rules)
    return (Reason.BAD_PATTERN, f"{words}.") if words else None


def _problem(scope: ReconcileScope) -> tuple[Reason | None, str]:
    if scope.start_time and scope.spec_hash and _drifted(scope):
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
    """Whether the spec is another than the one the job was started with; a generation is compared once."""
    if scope.before.observed_generation == scope.job.generation:
        told = scope.conditions.get(ConditionType.INVALID)
        return told is not None and told.holds and told.reason == Reason.SPEC_CHANGED
    return scope.spec_hash_now != scope.spec_hash
