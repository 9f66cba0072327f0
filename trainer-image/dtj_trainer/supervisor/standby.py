"""The standby: a second process that has formed the next cluster with its peers' and waits at its first step.

When a process of the job crashes, every supervisor starts its standby instead of a new process, and training goes on
without the second that a new process needs. A standby is made only while all processes train and memory
suffices; without it, or when it fails, the job continues as usual
(docs/decisions/041-standby-processes.md).
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from dtj_trainer.cluster.accelerators import gpu_there
from dtj_trainer.cluster.cgroup import Cgroup, resident_bytes
from dtj_trainer.cluster.probes import GENERATION
from dtj_trainer.cluster.task_mode import TaskMode
from dtj_trainer.cluster.tf_config import TfConfig
from dtj_trainer.contract import ExitClass
from dtj_trainer.ipc.messages import ProcessExit, ReadyForTakeover, StartOrder
from dtj_trainer.supervisor.membership import Membership
from dtj_trainer.supervisor.process_pool import ProcessPool
from dtj_trainer.supervisor.settings import Settings
from dtj_trainer.supervisor.termination_message import print_line
from dtj_trainer.supervisor.training_process import TrainingProcess

AFTER_SECONDS: Final = 0.25
"""After the first step of the training process."""
AGAIN_SECONDS: Final = 20.0
"""After a standby that ended before it was of use, or when there was no room for one."""
FAILURES: Final = 3
"""After so many standbys that ended so, no more are made."""
HEADROOM: Final = 1.3
"""Free memory, as a multiple of what the training process uses, that has to be there before a standby is made: it
needs about 1."""
COMMON_HEADROOM: Final = 2.0
"""The same where the kernel would kill all processes of the container, not the standby alone."""
LEAST: Final = 0.5
"""Of the room that a standby was to leave, the part below which it has to go."""
MEMORY_CHECK_SECONDS: Final = 1.0
"""The interval of the memory check while there is a standby."""
FIRST_VICTIM: Final = "1000"
"""oom_score_adj of a standby: where the kernel kills one process alone, it is this and not the training process."""


class Standby:
    """The standby process beside the training process; at most one."""

    def __init__(
        self, pool: ProcessPool, membership: Membership, cluster: Callable[[], TfConfig], cgroup: Cgroup
    ) -> None:
        """Set up without a standby; `cluster` returns the current addresses of the job's tasks."""
        self._pool = pool
        self._membership = membership
        self._cluster = cluster
        self._cgroup = cgroup
        self.process: TrainingProcess | None = None
        self._met: frozenset[tuple[str, int]] = frozenset()
        """The standbys that it forms a cluster with."""
        self._due: float | None = None
        self._look_at = 0.0
        self._failures = 0
        self._dismissed = False
        self._usual_score = "0"

    @property
    def ready(self) -> bool:
        """Whether it can take over."""
        return self.process is not None and self.process.prepared

    def poll(self, now: float, training: TrainingProcess, order: StartOrder) -> None:
        """Spawn a standby when it is due, and kill one whose peers are gone."""
        others = self._peers()
        if self.process is not None:
            if self._met != others:
                self.dismiss()
            elif now >= self._look_at:
                self._look_at = now + MEMORY_CHECK_SECONDS
                self._make_room(training, now)
            return
        if self._due is None:
            self._due = now + AFTER_SECONDS
        if self._met != others:
            self._met, self._failures = others, 0
        if now < self._due or self._failures >= FAILURES or not self._can_form():
            return
        room = self._room(training)
        if room is None or room <= self._headroom:
            self._due = now + AGAIN_SECONDS
            return
        side = 1 - training.side
        cluster = self._cluster()
        if side:
            members = {**self._membership.known_peers, cluster.task: self._membership.me}
            cluster = cluster.at({task: member.standby_port for task, member in members.items()})
        environment = {GENERATION: f"{self._membership.me.generation + 1}", "TF_CONFIG": cluster.to_json()}
        order = replace(order, standby=True, environment=environment)
        self._dismissed = False
        self.process = TrainingProcess.spawn(self._pool, order, self._cgroup.oom_kills(), side=side)

    def receive(self) -> None:
        """Read its messages: whether it is prepared, and how it ends."""
        if self.process is None:
            return
        for message in self.process.messages():
            match message:
                case ReadyForTakeover():
                    self.process.prepared = True
                case ProcessExit():
                    self.process.exit = message

    def on_started(self, number: int, pid: int) -> bool:
        """Record that a process was started; returns False if it is another one."""
        if self.process is None or self.process.number != number:
            return False
        self.process.pid = pid
        self._usual_score = set_oom_score(pid, FIRST_VICTIM)
        if self._dismissed:
            self.process.kill()
        return True

    def on_exited(self, pid: int | None, now: float) -> bool:
        """Take note that a process is gone and reaped, or (None) never started; False if it was another one."""
        if self.process is None or self.process.pid != pid:
            return False
        self.receive()
        ended, self.process = self.process, None
        ended.connection.close()
        if not self._dismissed:
            self._failures += 1
            self._due = now + AGAIN_SECONDS
            if ended.exit is None or ended.exit.exit_class != ExitClass.PEER_LOST:  # else a peer's ended: it says why
                why = (ended.exit and ended.exit.message) or "it was killed"
                print_line(f"the standby ended ({why}); the training goes on without one")
        return True

    def take(self) -> TrainingProcess | None:
        """Hand over the process that takes over; None where it is not prepared, or was prepared with others."""
        found = self.process
        if found is None or not found.prepared or self._dismissed or self._met != self._peers():
            return None
        self.process, self._due = None, None
        set_oom_score(found.pid, self._usual_score)
        return found

    def dismiss(self) -> None:
        """Kill it; `on_exited` follows."""
        self._due = None
        if self.process is None or self._dismissed:
            return
        self._dismissed = True
        self.process.kill()

    def _peers(self) -> frozenset[tuple[str, int]]:
        """Return the peers' incarnations, and the ports of their standbys."""
        return frozenset((peer.incarnation, peer.standby_port) for peer in self._membership.known_peers.values())

    def _can_form(self) -> bool:
        all_prepared = all(peer.standby_port for peer in self._membership.known_peers.values())
        return self._pool.loaded and all_prepared and self._membership.all_running

    def _make_room(self, training: TrainingProcess, now: float) -> None:
        """Kill the standby before memory runs out: training may need more by now, for a cache or a save's copies."""
        room = self._room(training)
        if self._dismissed or room is None or room >= LEAST * (self._headroom - 1):
            return
        self.dismiss()
        self._failures += 1
        self._due = now + AGAIN_SECONDS
        print_line(
            "memory gets short, so the standby was ended and the training goes on without one; "
            "raise the memory limit to keep it"
        )

    def _room(self, training: TrainingProcess) -> float | None:
        """Return free memory as a multiple of what the training process uses; None if unknown."""
        used, free = resident_bytes(training.pid), self._cgroup.free_bytes()
        return free / used if used and free is not None else None

    @property
    def _headroom(self) -> float:
        return COMMON_HEADROOM if self._cgroup.kills_all_together() else HEADROOM


def standby_possible(settings: Settings, mode: TaskMode, strategy: str, *, preload: bool) -> bool:
    """Return whether this pod may have a standby at all.

    Not beside an accelerator, whose memory two processes would share.
    """
    if settings.standby == "off" or mode is not TaskMode.COLLECTIVE or not preload:
        return False
    return strategy in {"", "MultiWorkerMirrored"} and not settings.gpus and not gpu_there()


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket(socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET) as sock:
        sock.bind(("", 0))
        return int(sock.getsockname()[1])


def set_oom_score(pid: int | None, score: str) -> str:
    """Set oom_score_adj of a process; returns what it was before. Where that is not allowed it stays."""
    file = Path(f"/proc/{pid}/oom_score_adj")
    try:
        before = file.read_text(encoding="ascii")
        file.write_text(score, encoding="ascii")
    except OSError:
        return "0"
    return before
