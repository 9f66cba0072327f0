"""What only the operator can see to be wrong with a spec; the API server refuses the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import ConditionType, EventReason, Reason
from dtj_operator.reconcile.failures.failure_rules import pattern_problem
from dtj_operator.reconcile.state.blocked_writes import BlockedReason, unanswered

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.scope import Draft


def validate(draft: Draft) -> None:
    """Set or clear `Invalid`; no pod is made from an invalid spec."""
    reason, message = _bad_pattern(draft) or _problem(draft)
    if reason is None:
        told = draft.condition(ConditionType.INVALID)
        if told and told.holds and not unanswered(draft, told.reason):
            _valid(draft)
        return
    _invalid(draft, reason, message)
    if reason is not Reason.INVALID:
        draft.held = message


def validate_while_suspended(draft: Draft) -> None:
    """Of a suspended job only the patterns can be judged; what the server refused stands until the spec is another."""
    told, bad = draft.condition(ConditionType.INVALID), _bad_pattern(draft)
    if bad is not None:
        _invalid(draft, *bad)
    elif told and told.holds and told.reason != Reason.INVALID:
        _valid(draft)


def forget_refusal(draft: Draft) -> None:
    """The spec is another now than the one that the server refused, if it did."""
    told = draft.condition(ConditionType.INVALID)
    if told and told.holds and told.reason == Reason.INVALID:
        _valid(draft)


def _valid(draft: Draft) -> None:
    draft.set_false(ConditionType.INVALID, Reason.VALID, "The spec can be acted upon.")


def _invalid(draft: Draft, reason: Reason, message: str) -> None:
    if draft.set_true(ConditionType.INVALID, reason, message):
        draft.warn(EventReason.INVALID, message)


def _bad_pattern(draft: Draft) -> tuple[Reason, str] | None:
    words = pattern_problem(draft.spec.failure_policy.rules)
    return (Reason.BAD_PATTERN, f"{words}.") if words else None


def _problem(draft: Draft) -> tuple[Reason | None, str]:
    if draft.start_time and draft.spec_hash and _drifted(draft):
        return (
            Reason.SPEC_CHANGED,
            (
                "The spec was changed while the job runs, and no pod is made from it: undo the "
                "change, or suspend the job and resume it to start with the new spec."
            ),
        )
    for blocked in draft.snapshot.blocked_writes:
        # A refusal of an earlier spec says nothing new.
        current = blocked.generation == draft.job.generation or draft.holds(ConditionType.INVALID)
        if blocked.kind is BlockedReason.INVALID and current:
            return (
                Reason.INVALID,
                f"The API server refuses {blocked.target}: {blocked.message}",
            )
    return None, ""


def _drifted(draft: Draft) -> bool:
    """Whether the spec is another than the one the job was started with; a generation is compared once."""
    if draft.before.observed_generation == draft.job.generation:
        told = draft.condition(ConditionType.INVALID)
        return told is not None and told.holds and told.reason == Reason.SPEC_CHANGED
    return draft.spec_hash_now != draft.spec_hash
