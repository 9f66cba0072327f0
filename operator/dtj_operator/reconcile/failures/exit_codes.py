"""The exit-code table of restartPolicy ExitCode. Total: every integer has a verdict.

docs/reference/exit-codes.md prints it. It follows TFJob's documentation, not its code, which
restarts segmentation faults without end.
"""

from __future__ import annotations

from enum import StrEnum

SEGMENTATION_FAULT = 139
ABORTED = 134
FIRST_SIGNAL = 128

PERMANENT = frozenset({1, 2, 126, 127, 128, ABORTED, SEGMENTATION_FAULT})
RETRYABLE = frozenset({42, 75, 130, 137, 138, 143})


class ExitVerdict(StrEnum):
    """The meaning of an exit code: whether a restart may help."""

    SUCCESS = "success"
    PERMANENT = "permanent"
    RETRYABLE = "retryable"


def exit_verdict(code: int) -> ExitVerdict:
    """Return the verdict of a code: listed codes as listed, others retryable above 128 and permanent below."""
    if code == 0:
        return ExitVerdict.SUCCESS
    if code in PERMANENT:
        return ExitVerdict.PERMANENT
    if code in RETRYABLE or code > FIRST_SIGNAL:
        return ExitVerdict.RETRYABLE
    return ExitVerdict.PERMANENT
