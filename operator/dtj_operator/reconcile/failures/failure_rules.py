"""The matching of failure rules.

Rules come before restartPolicy, the first match wins, and what a rule leaves out matches
everything. Patterns are RE2: users write them, and no RE2 pattern makes matching slow. What the patterns
of one job may cost is bounded too, because one operator serves all users.
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


PATTERN_BYTES = 64 * 1024
"""What RE2 may use to compile a pattern: `\\pL{400}a` would take 7 MB, and 130 ms."""
MATCH_BYTES = 256 * 1024
"""What RE2 may use to match: with less it changes to a slower algorithm. re2 keeps 128 expressions."""
TOO_LARGE = "too large"
"""In RE2's words on an expression that needs more."""
PROGRAM_MAX = 2_500
"""Instructions of all patterns of a job. Each takes up to 37 microseconds for a message of 4 KB, so all take 0.1 s."""
CHECKED_PATTERNS = 4096
"""Patterns of which is known whether RE2 accepts them: every pass over a job asks."""


def matching_rule(rules: Sequence[FailureRule], role: Role, failure: Failure) -> int | None:
    """Return the position of the first rule that matches; None when none does."""
    for position, rule in enumerate(rules):
        if _matches(rule, role, failure):
            return position
    return None


def pattern_problem(rules: Sequence[FailureRule]) -> str:
    """Return one sentence about the first pattern that RE2 refuses, or about all; empty when they are fine."""
    for position, rule in enumerate(rules):
        words = _refusal(rule.message_pattern)
        if words:
            name = f" ({rule.name})" if rule.name else ""
            return (
                f"failurePolicy.rules[{position}]{name}.messagePattern is not an RE2 expression: "
                f"{words}; correct the pattern"
            )
    size = sum(_size(rule.message_pattern) for rule in rules if rule.message_pattern)
    if size > PROGRAM_MAX:
        return (
            f"the messagePatterns in failurePolicy.rules have {size:,} RE2 instructions, of {PROGRAM_MAX:,} together "
            r"that are allowed: shorten them, above all repetitions such as {1,200} and classes such as \pL"
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
    """Return whether the set has the code. NotIn never has 0, as in the failure policy of a batch/v1 Job."""
    if codes.operator == "In":
        return code in codes.values
    return bool(code) and code not in codes.values


def _found(pattern: str, message: str) -> bool:
    if _refusal(pattern):
        return False
    return _compile(pattern, MATCH_BYTES).search(message.encode(errors="replace").decode()) is not None


@lru_cache(maxsize=CHECKED_PATTERNS)
def _refusal(pattern: str) -> str:
    """Return RE2's own words on why this is no expression, or too large a one; empty when it is fine."""
    try:
        _compile(pattern, PATTERN_BYTES)
    except re2.error as error:
        words = error.args[0] if error.args else "refused"
        text = words.decode(errors="replace") if isinstance(words, bytes) else str(words)
        return f"{text} (it may take {PATTERN_BYTES // 1024} KiB)" if TOO_LARGE in text else text
    return ""


@lru_cache(maxsize=CHECKED_PATTERNS)
def _size(pattern: str) -> int:
    """Return the number of instructions of a pattern."""
    size: int = _compile(pattern, PATTERN_BYTES).programsize
    return size


def _compile(pattern: str, max_bytes: int) -> re2._Regexp:
    """Compile a pattern within that much memory. Raises re2.error."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = max_bytes
    return re2.compile(pattern, options)
