"""One pod, as its supervisor knows it now."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from dtj_trainer.cluster.task_mode import Part, Place
from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.supervisor.http.metrics import Metrics
from dtj_trainer.supervisor.membership import Rendezvous, Stage
from dtj_trainer.supervisor.progress import Progress
from dtj_trainer.supervisor.shutdown import Departure
from dtj_trainer.supervisor.standby import Standby
from dtj_trainer.supervisor.training_process import Child


@dataclass(slots=True)
class Pod:
    """The supervision changes it, one turn at a time, under `lock`; others take that for reading."""

    place: Place
    ours: bool
    """The program imports dtj."""
    rendezvous: Rendezvous
    progress: Progress
    departure: Departure
    metrics: Metrics
    standby: Standby | None
    child: Child | None = None
    """The process that trains or serves."""
    checkpoint_owed: bool = False
    """Somebody asked for a checkpoint while no process trained."""
    restarts: int = 0
    has_run: bool = False
    """A child was let go at least once."""
    turned_at: float = field(default_factory=time.monotonic)
    """When the supervision began its last turn."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def serves(self) -> bool:
        """Whether it runs a server in place of the program."""
        return self.place.part is Part.SERVER

    @property
    def member(self) -> bool:
        """Whether its cluster forms, and falls, as a whole."""
        return self.place.part is Part.MEMBER

    def children(self) -> list[Child]:
        """The process that trains, and the standby."""
        standby = self.standby.process if self.standby else None
        return [child for child in (self.child, standby) if child is not None]

    def missing(self) -> list[Task]:
        """Peers that the child has to wait for."""
        if self.member:
            return self.rendezvous.missing()
        known = self.rendezvous.known
        return [task for task in self.place.peers if task not in known or known[task].stage is not Stage.SERVING]
