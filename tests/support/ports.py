"""Loopback ports for programs of tests, outside the range that outgoing connections draw from.

A port of that range may be some connection's own by the time that the program listens.
"""

from __future__ import annotations

import itertools
import os
import random
from typing import Final

from e2e.cluster.control_plane import is_free

PROCESSES: Final = 8
"""Of pytest at once; each has ports of its own."""
PROCESS: Final = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % PROCESSES
"""This one."""
_mixed = range(10_000 + PROCESS, 20_000, PROCESSES)
_ports = itertools.cycle(random.sample(_mixed, len(_mixed)))


def free_port() -> int:
    """A port that nothing uses now, and that has not been given out for long."""
    return next(filter(is_free, _ports))


def free_ports(count: int) -> list[int]:
    """So many different ones."""
    return [free_port() for _ in range(count)]
