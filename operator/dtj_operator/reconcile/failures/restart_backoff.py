"""The time that a restart waits."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dtj_operator.api.failure_policy_spec import Backoff
    from dtj_operator.api.persisted_state import RootCause
    from dtj_operator.reconcile.state.recovery import FreeRestarts


def exponential_delay(backoff: Backoff, consecutive: int) -> timedelta:
    """Return initial, 2 x initial, 4 x initial … up to the maximum."""
    doubled = backoff.initial_seconds << min(consecutive, 32)
    return timedelta(seconds=min(doubled, backoff.max_seconds))


def free_delay(backoff: Backoff, root: RootCause, row: FreeRestarts) -> timedelta:
    """Return the delay of a restart that lets no other wait: none for the first disruption in a row."""
    at_once = root.evidence and not row.free
    return timedelta() if at_once else timedelta(seconds=backoff.initial_seconds)


def repeated_delay(backoff: Backoff, ends: int) -> timedelta:
    """Return the delay of a pod that ends again and again while the job is not Running in between, whatever the cause.

    `ends` of its replica's pods ended before: none is waited for the first time, then initial, 2 x initial … up to the
    maximum, and never less than a second.
    """
    if ends < 1:
        return timedelta()
    doubled = max(1, backoff.initial_seconds) << min(ends - 1, 32)
    return timedelta(seconds=min(doubled, max(1, backoff.max_seconds)))


def end_delay(backoff: Backoff, root: RootCause) -> timedelta:
    """Return how long a job waits before it fails, as a likelier root cause may still be reported."""
    certain = root.evidence and root.rank
    return timedelta() if certain else timedelta(seconds=backoff.initial_seconds)
