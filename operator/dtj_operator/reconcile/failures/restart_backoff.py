"""How long a restart waits."""

from __future__ import annotations

from datetime import timedelta


def delay(initial_seconds: int, max_seconds: int, consecutive: int) -> timedelta:
    """initial, 2 x initial, 4 x initial … up to the maximum."""
    doubled = initial_seconds << min(consecutive, 32)
    return timedelta(seconds=min(doubled, max_seconds))
