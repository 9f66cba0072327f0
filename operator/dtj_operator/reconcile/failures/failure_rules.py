"""Which failure rule matches a failure.

Rules come before restartPolicy, the first match wins, and what a rule leaves out matches
everything. Patterns are RE2: users write them, and no RE2 pattern makes matching slow.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import re2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dtj_operator.api.enums import Role
    from dtj_operator.api.failure_policy_spec import ExitCodes, FailureRule
    from dtj_operator.reconcile.failures.failure import Failure


def matching_rule(rules: Sequence[FailureRule], role: Role, failure: Failure) -> int | None:
    """Return the position of the first rule that matches; None when none does."""
    for position, rule in enumerate(rules):
        if _matches(rule, role, failure):
            return position
    return None


def pattern_problem(rules: Sequence[FailureRule]) -> str:
    """Return one sentence about the first pattern that RE2 refuses; empty when all are fine."""
    for position, rule in enumerate(rules):
        words = _refusal(rule.message_pattern)
        if words:
            name = f" ({rule.name})" if rule.name else ""
            return (
                f"failurePolicy.rules[{position}]{name}.messagePattern is not an RE2 expression: "
                f"{words}; correct the pattern"
            )
    return ""


def _matches(rule: FailureRule, role: Role, failure: Failure) -> bool:
    reasons = {failure.reason, failure.pod_reason, failure.disruption}
    return (
        (not rule.roles or role in rule.roles)
        and (rule.exit_codes is None or _has(rule.exit_codes, failure.exit_code))
        and (not rule.reasons or not reasons.isdisjoint(rule.reasons))
        and (not rule.message_pattern or _found(rule.message_pattern, failure.message))
    )


def _has(codes: ExitCodes, code: int | None) -> bool:
    """A code that is not named is one of a failure, as in the failure policy of a batch/v1 Job."""
    if codes.operator == "In":
        return code in codes.values
    return bool(code) and code not in codes.values


def _found(pattern: str, message: str) -> bool:
    expression = _compiled(pattern)
    if isinstance(expression, str):
        return False
    return expression.search(message.encode(errors="replace").decode()) is not None


def _refusal(pattern: str) -> str:
    expression = _compiled(pattern)
    return expression if isinstance(expression, str) else ""


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re2._Regexp | str:
    """The expression, or RE2's own words on why it is none."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        words = error.args[0] if error.args else "refused"
        return words.decode() if isinstance(words, bytes) else str(words)
