"""Memory, out-of-memory kills and the CPU limit of the container, from cgroups of version 1 and 2.

Sources: Documentation/admin-guide/cgroup-v2.rst (memory.events, memory.oom.group, cpu.max) and
cgroup-v1/memory.rst (memory.oom_control) of the Linux kernel.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The cgroup of this process, seen through one mount of the cgroup file system."""

    mount: Path = Path("/sys/fs/cgroup")
    membership: Path = Path("/proc/self/cgroup")

    def oom_kills(self) -> int:
        """Return how many processes the kernel has killed here because memory ran out; 0 if unknown."""
        for folder in self._folders("memory"):
            for name in ("memory.events.local", "memory.events", "memory.oom_control"):
                count = _counter(folder / name, "oom_kill")
                if count is not None:
                    return count
        return 0

    def kills_all_together(self) -> bool:
        """Return whether an out-of-memory kill ends all processes of the group, as kubelets set it in version 2."""
        return any(_read(folder / "memory.oom.group").strip() == "1" for folder in self._folders("memory"))

    def free_bytes(self) -> int | None:
        """Return the memory that may still be used, up to the limit; pages of files that can be dropped are free."""
        available = _available_bytes()
        for folder in self._folders("memory"):
            for limit_file, usage_file in (
                ("memory.max", "memory.current"),
                ("memory.limit_in_bytes", "memory.usage_in_bytes"),
            ):
                limit, usage = _read(folder / limit_file).strip(), _read(folder / usage_file).strip()
                if not limit.isdigit() or not usage.isdigit():
                    continue
                files = _counter(folder / "memory.stat", "inactive_file") or 0
                left = int(limit) - int(usage) + files
                return left if available is None else min(left, available)
        return available

    def cpu_limit(self) -> int | None:
        """Return the quota in whole CPUs, rounded up; None without one.

        TensorFlow sees the node's cores, not the quota: oversubscribed threads cost 30 to 50 %.
        """
        for folder in (*self._folders("cpu"), self.mount / "cpu,cpuacct"):
            limit = _cpu_limit(folder)
            if limit is not None:
                return max(1, math.ceil(limit))
        return None

    def cpus(self) -> int:
        """Return how many whole CPUs may be used: the quota, or those that can be scheduled on."""
        available, limit = len(os.sched_getaffinity(0)), self.cpu_limit()
        return available if limit is None else min(available, limit)

    def _folders(self, controller: str) -> Iterator[Path]:
        """Yield where the files of a controller may lie: this group's folder first, then the mount's root.

        Inside a container the mount's root usually is this group.
        """
        v1, v2 = "", ""
        for line in _read(self.membership).splitlines():
            _, controllers, path = [*line.split(":", 2), "", ""][:3]
            if controller in controllers.split(","):
                v1 = path
            elif not controllers:
                v2 = path
        for mount, path in ((self.mount / controller, v1), (self.mount, v2)):
            yield mount / path.lstrip("/")
            yield mount


def resident_bytes(pid: int | None) -> int | None:
    """Return the memory that a process has in use; None if unknown."""
    if pid is None:
        return None
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _counter(path: Path, key: str) -> int | None:
    for line in _read(path).splitlines():
        name, _, value = line.partition(" ")
        if name == key and value.strip().isdigit():
            return int(value)
    return None


def _available_bytes() -> int | None:
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _cpu_limit(folder: Path) -> float | None:
    words = _read(folder / "cpu.max").split()
    if words and words[0].isdigit():
        return int(words[0]) / int(words[1])
    quota, period = _read(folder / "cpu.cfs_quota_us").strip(), _read(folder / "cpu.cfs_period_us").strip()
    if quota.isdigit() and period.isdigit() and int(period):
        return int(quota) / int(period)
    return None
