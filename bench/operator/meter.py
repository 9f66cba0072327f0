"""Processor time of single processes and of the whole machine, from /proc."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Processor seconds used so far."""

    at: float
    """Monotonic seconds."""
    machine: float
    """Everything that is not idle, all cores together."""
    server: float
    """All processes of the control plane."""


@dataclass(frozen=True, slots=True)
class Span:
    """The difference between two `CpuTimes`."""

    seconds: float
    server: float
    """Processor seconds of the control plane's processes."""
    machine: float
    """Processor seconds of everything on the machine."""

    def others(self, client: float) -> float:
        """Return how many cores everything else used, when the measured client used so many seconds."""
        return max(0.0, self.machine - self.server - client) / self.seconds


def read(init: int) -> CpuTimes:
    """Return the present processor times; `init` is the parent of the control plane's processes."""
    return CpuTimes(time.monotonic(), _machine()[0], sum(_process(pid)[1] for pid in _children(init)))


def between(before: CpuTimes, after: CpuTimes) -> Span:
    """Return the difference."""
    return Span(after.at - before.at, after.server - before.server, after.machine - before.machine)


def process_seconds(pid: int) -> float:
    """Return user and system time of one process."""
    return _process(pid)[1]


def stolen_percent() -> Callable[[], float]:
    """Return a function that tells what percentage of the processor time wanted since now the host gave to others."""
    wanted, stolen = _machine()

    def until_now() -> float:
        wanted_now, stolen_now = _machine()
        return 100 * (stolen_now - stolen) / max(1 / TICKS, wanted_now - wanted)

    return until_now


def _children(parent: int) -> list[int]:
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return [pid for pid in pids if _process(pid)[0] == parent]


def _process(pid: int) -> tuple[int, float]:
    """Return parent and processor seconds of a process; zeros for one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return 0, 0.0
    return int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS


def _machine() -> tuple[float, float]:
    """Return the busy time including steal, and the steal time alone."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / TICKS, fields[7] / TICKS
