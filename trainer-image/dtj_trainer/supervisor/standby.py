"""The standby: a second process that has formed the next cluster with its peers' and waits at its first step.

When a process of the job falls, every supervisor lets its standby go instead of a new process, and training goes on
without the second that a new process needs. It is made only while all train and there is room for it, and it never
stands in the way: whatever happens to it, the job goes on as without it (docs/decisions/041-standby-processes.md).
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from dtj_trainer.cluster.accelerators import gpu_there
from dtj_trainer.cluster.cgroup import Cgroup
from dtj_trainer.cluster.probes import GENERATION
from dtj_trainer.cluster.task_mode import Part, Place
from dtj_trainer.cluster.tf_config import Task, TfConfig
from dtj_trainer.ipc.connection import connection_pair
from dtj_trainer.ipc.messages import ProcessExit, ReadyForTakeover, StartOrder
from dtj_trainer.supervisor import process_pool
from dtj_trainer.supervisor.http.metrics import resident_bytes
from dtj_trainer.supervisor.membership import Rendezvous
from dtj_trainer.supervisor.process_pool import Nursery
from dtj_trainer.supervisor.settings import Settings
from dtj_trainer.supervisor.training_process import Child

AFTER_SECONDS: Final = 0.25
"""After the first step of the process that trains."""
AGAIN_SECONDS: Final = 20.0
"""After a standby that ended before it was of use, or when there was no room for one."""
FAILURES: Final = 3
"""After so many standbys that ended so there is none any more."""
HEADROOM: Final = 1.3
"""Free memory, as a multiple of what the process that trains uses, that has to be there before a standby is made: it
needs about 1."""
COMMON_HEADROOM: Final = 2.0
"""The same where the kernel would take all processes of the container, not the standby alone."""
LEAST: Final = 0.5
"""Of the room that a standby was to leave, the part below which it has to go."""
LOOK_SECONDS: Final = 1.0
"""How often the room is looked at while there is a standby."""
FIRST_VICTIM: Final = "1000"
"""oom_score_adj of a standby: where the kernel takes one process alone, it takes this and not the one that trains."""


class Standby:
    """At most one process beside the one that trains."""

    def __init__(self, nursery: Nursery, cluster: Callable[[], TfConfig], cgroup: Cgroup) -> None:
        """`cluster` tells where its members are to be reached now."""
        self.port = free_port()
        self._nursery = nursery
        self._cluster = cluster
        self._cgroup = cgroup
        self.process: Child | None = None
        self._met: frozenset[tuple[str, int]] = frozenset()
        """The standbys that it forms a cluster with."""
        self._due: float | None = None
        self._look_at = 0.0
        self._failures = 0
        self._dismissed = False
        self._mark = "0"

    def tend(self, now: float, trains: Child, rendezvous: Rendezvous, number: int, order: StartOrder) -> bool:
        """Make one where it is time, and end one whose peers are no more; True if child `number` was asked for."""
        others = standbys(rendezvous)
        if self.process is not None:
            if self._met != others:
                self.dismiss()
            elif now >= self._look_at:
                self._look_at = now + LOOK_SECONDS
                self._make_room(trains, now)
            return False
        if self._due is None:
            self._due = now + AFTER_SECONDS
        if self._met != others:
            self._met, self._failures = others, 0
        if now < self._due or self._failures >= FAILURES or not self._in_time(rendezvous):
            return False
        room = self._room(trains)
        if room is None or room <= self._headroom:
            self._due = now + AGAIN_SECONDS
            return False
        ours, theirs = connection_pair()
        self.process = Child(number, ours, self._cgroup.oom_kills(), standby=True, side=1 - trains.side)
        self._dismissed = False
        cluster = self._cluster()
        if self.process.side:
            cluster = cluster.at({**_other_ports(rendezvous), cluster.task: self.port})
        environment = {GENERATION: f"{rendezvous.me.generation + 1}", "TF_CONFIG": cluster.wire()}
        self._nursery.bear(number, replace(order, standby=True, environment=environment), theirs)
        return True

    def hear(self) -> None:
        """Read what it says: whether it is prepared, and how it ends."""
        if self.process is None:
            return
        for message in self.process.messages():
            match message:
                case ReadyForTakeover():
                    self.process.prepared = True
                case ProcessExit():
                    self.process.exit = message

    def born(self, number: int, pid: int) -> bool:
        """A child exists; False if it is another one."""
        if self.process is None or self.process.number != number:
            return False
        self.process.pid = pid
        self._mark = mark(pid, FIRST_VICTIM)
        if self._dismissed:
            process_pool.kill(pid)
        return True

    def died(self, pid: int | None, now: float) -> bool:
        """A child is gone and reaped, or (None) was never born; False if it was another one."""
        if self.process is None or self.process.pid != pid:
            return False
        self.hear()
        ended, self.process = self.process, None
        ended.connection.close()
        if not self._dismissed:
            self._failures += 1
            self._due = now + AGAIN_SECONDS
            why = (ended.exit and ended.exit.message) or "it was killed"
            sys.stderr.write(f"dtj: the standby ended ({why}); the training goes on without one\n")
            sys.stderr.flush()
        return True

    def take(self, rendezvous: Rendezvous) -> Child | None:
        """The process that takes over; None where it is not prepared, or was prepared with others."""
        found = self.process
        if found is None or not found.prepared or self._dismissed or self._met != standbys(rendezvous):
            return None
        self.process, self._due = None, None
        mark(found.pid, self._mark)
        return found

    def dismiss(self) -> None:
        """End it; `died` follows."""
        self._due = None
        if self.process is None or self._dismissed:
            return
        self._dismissed = True
        if self.process.pid is not None:
            process_pool.kill(self.process.pid)

    def _in_time(self, rendezvous: Rendezvous) -> bool:
        everybody = all(peer.standby_port for peer in rendezvous.company.values())
        return self._nursery.loaded and everybody and rendezvous.all_run

    def _make_room(self, trains: Child, now: float) -> None:
        """Go before the kernel has to choose: what trains may need more by now, for a cache or a save's copies."""
        room = self._room(trains)
        if self._dismissed or room is None or room >= LEAST * (self._headroom - 1):
            return
        self.dismiss()
        self._failures += 1
        self._due = now + AGAIN_SECONDS
        sys.stderr.write(
            "dtj: memory gets short, so the standby was ended and the training goes on without one; "
            "raise the memory limit to keep it\n"
        )
        sys.stderr.flush()

    def _room(self, trains: Child) -> float | None:
        """Free memory, as a multiple of what the process that trains uses; None where that cannot be told."""
        used, free = resident_bytes(trains.pid), self._cgroup.free_bytes()
        return free / used if used and free is not None else None

    @property
    def _headroom(self) -> float:
        return COMMON_HEADROOM if self._cgroup.falls_together() else HEADROOM


def _other_ports(rendezvous: Rendezvous) -> dict[Task, int]:
    """Of the peers."""
    return {task: peer.standby_port for task, peer in rendezvous.company.items()}


def standbys(rendezvous: Rendezvous) -> frozenset[tuple[str, int]]:
    """Of the peers: a supervisor's incarnation, and the port of its standby."""
    return frozenset((peer.incarnation, peer.standby_port) for peer in rendezvous.company.values())


def possible(settings: Settings, place: Place, nursery: Nursery) -> bool:
    """Whether this pod may have a standby at all.

    Not beside an accelerator, whose memory two processes would share.
    """
    if settings.standby == "off" or place.part is not Part.MEMBER or not nursery.preload:
        return False
    return place.strategy in {"", "MultiWorkerMirrored"} and not settings.gpus and not gpu_there()


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket(socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET) as sock:
        sock.bind(("", 0))
        return int(sock.getsockname()[1])


def mark(pid: int | None, first_victim: str) -> str:
    """Set oom_score_adj of a process; what it was before. Where that is not allowed it stays."""
    file = Path(f"/proc/{pid}/oom_score_adj")
    try:
        before = file.read_text(encoding="ascii")
        file.write_text(first_victim, encoding="ascii")
    except OSError:
        return "0"
    return before
