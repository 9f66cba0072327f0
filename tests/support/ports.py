"""Loopback ports for programs of tests, outside the range of outgoing connections.

A port of that range may be used by a connection by the time that the program listens.
"""

from __future__ import annotations

import itertools
import os
import random
from typing import Final

from e2e.cluster.control_plane import is_free

PROCESSES: Final = 8
"""The most pytest processes in parallel; each has its own ports."""
PROCESS: Final = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % PROCESSES
"""The number of this process."""
_mixed = range(10_000 + PROCESS, 20_000, PROCESSES)
_ports = itertools.cycle(random.sample(_mixed, len(_mixed)))


def free_port() -> int:
    """Return a port that nothing uses now, and that was not returned recently."""
    return next(filter(is_free, _ports))


def free_ports(count: int) -> list[int]:
    """Return `count` different ports."""
    return [free_port() for _ in range(count)]
