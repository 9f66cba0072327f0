"""Waits for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable

from e2e.cluster.interface import ClusterError


def wait_until(condition: Callable[[], bool], limit: float, failure: Callable[[], str], pause: float = 0.05) -> None:
    """Poll `condition` until it holds; ClusterError(failure()) after `limit` seconds."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(failure())
        time.sleep(pause)
