"""Which cluster is formed next, agreed between supervisors without a leader.

Every attempt to form the cluster has a number, its generation. Whoever lost its process wants
the next one; whoever hears of a higher number gives its own process up and follows. A process is
let go when every member stands at the same generation, and at a cluster formed of the same
supervisors. docs/decisions/010-membership.md has the reasons.

Pure: no I/O, no clock.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from dtj_trainer.cluster.tf_config import Task


class Stage(StrEnum):
    """Where a supervisor stands in its generation."""

    LEAVING = "leaving"
    """A process of an older generation may still live."""
    PARKED = "parked"
    """Nothing of an older generation lives; it waits for the others."""
    RUNNING = "running"
    SERVING = "serving"
    """A server role that serves."""
    DONE = "done"


class Refusal(StrEnum):
    """Why a peer is not believed."""

    OTHER_JOB = "other-job"
    OLDER_ATTEMPT = "older-attempt"


@dataclass(frozen=True, slots=True)
class Identity:
    """What a supervisor tells its peers."""

    uid: str
    attempt: int
    role: str
    index: int
    incarnation: str
    """Drawn anew by each supervisor process."""
    tensorflow: str
    generation: int = 0
    stage: Stage = Stage.LEAVING
    formation: str = ""
    """Digest of the members' incarnations that its process was let go with."""
    standby: bool = False
    """Its process formed the cluster with its peers' ahead of time, as their standbys."""
    standby_port: int = 0
    """Where TensorFlow listens in every other cluster formed ahead of time; 0: it forms none."""
    word: int = 0
    """How many changes of the above came before. Answers and calls overtake each other: the last word counts."""

    @property
    def task(self) -> Task:
        """Its place in the cluster."""
        return Task(self.role, self.index)

    def wire(self) -> bytes:
        """JSON."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def read(cls, text: bytes) -> Identity | None:
        """The identity in a peer's JSON; None if it is none."""
        try:
            body = json.loads(text)
            return cls(
                uid=str(body["uid"]),
                attempt=int(body["attempt"]),
                role=str(body["role"]),
                index=int(body["index"]),
                incarnation=str(body["incarnation"]),
                tensorflow=str(body["tensorflow"]),
                generation=int(body["generation"]),
                stage=Stage(body["stage"]),
                formation=str(body["formation"]),
                standby=bool(body.get("standby")),
                standby_port=int(body.get("standby_port", 0)),
                word=int(body.get("word", 0)),
            )
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None


class Rendezvous:
    """One supervisor's view of the cluster that has to form."""

    def __init__(self, me: Identity, peers: Iterable[Task]) -> None:
        self.me = me
        self.peers = tuple(peers)
        self.known: dict[Task, Identity] = {}

    def hear(self, peer: Identity) -> Refusal | None:
        """Take note of what a peer says of itself; the refusal says why it was not believed."""
        if peer.uid != self.me.uid:
            return Refusal.OTHER_JOB
        known = self.known.get(peer.task)
        if known is not None and peer.attempt < known.attempt:
            return Refusal.OLDER_ATTEMPT
        same = known is not None and known.incarnation == peer.incarnation
        if known is not None and same and peer.word < known.word:
            return None  # overtaken on its way
        self.known[peer.task] = peer
        return None

    def process_lost(self) -> None:
        """My process is gone or about to go: I want the next cluster."""
        self._become(generation=self.me.generation + 1, stage=Stage.LEAVING, formation="", standby=False)

    def stand(self, stage: Stage) -> None:
        """I have come to this stage."""
        formation = self.formation if stage is Stage.RUNNING else self.me.formation
        self._become(stage=stage, formation=formation)

    def park(self, *, standby: bool) -> None:
        """I have a process that can be let go: a new one, or the standby."""
        self._become(stage=Stage.PARKED, standby=standby)

    def dismiss_standby(self) -> None:
        """My standby is of no use: I come back with a new process, in the same generation."""
        self._become(stage=Stage.LEAVING, standby=False)

    def keep_no_standby(self) -> None:
        """I am about to go: none is to be made that mine would have to meet."""
        self._become(standby_port=0)

    @property
    def deserted(self) -> bool:
        """Whether I stand with a standby and a peer comes to my generation with a new process."""
        return self.me.standby and any(
            peer.generation == self.me.generation and peer.stage is Stage.PARKED and not peer.standby
            for peer in self._believed()
        )

    @property
    def all_run(self) -> bool:
        """Whether everybody runs in my cluster, as far as I know."""
        return self.me.stage is Stage.RUNNING and all(
            peer.stage is Stage.RUNNING and peer.formation == self.me.formation for peer in self._believed()
        )

    @property
    def overtaken(self) -> bool:
        """Whether my running process belongs to a cluster that a peer has left."""
        return self.me.stage is Stage.RUNNING and self._highest() > self.me.generation

    def follow(self) -> bool:
        """Go to the generation that the peers want; True if that changed mine.

        For one who does not run. A generation that already runs without me cannot be joined:
        then the next one.
        """
        wanted = max(self.me.generation, self._highest(), 1)
        while any(self._runs_without_me(peer, wanted) for peer in self._believed()):
            wanted += 1
        if wanted == self.me.generation:
            return False
        self._become(generation=wanted, formation="")
        return True

    @property
    def complete(self) -> bool:
        """Whether all members stand ready at my generation."""
        return self.me.stage is Stage.PARKED and not self.missing()

    def missing(self) -> list[Task]:
        """Members that do not stand ready at my generation."""
        return [task for task in self.peers if not self._stands(self.known.get(task))]

    def odd_version(self) -> Identity | None:
        """A peer with another TensorFlow."""
        for peer in self.known.values():
            if peer.tensorflow and self.me.tensorflow and peer.tensorflow != self.me.tensorflow:
                return peer
        return None

    @property
    def formation(self) -> str:
        """Digest of the members' incarnations as known now, and of how their processes came to be."""
        members: Mapping[Task, Identity] = {**self.known, self.me.task: self.me}
        names = (
            f"{task}:{members[task].incarnation}" for task in sorted((*self.peers, self.me.task)) if task in members
        )
        return hashlib.sha256("\n".join((*names, str(self.me.standby))).encode()).hexdigest()[:16]

    @property
    def company(self) -> Mapping[Task, Identity]:
        """My peers, as far as they are known."""
        return {task: self.known[task] for task in self.peers if task in self.known}

    def _become(self, **changes: Any) -> None:
        changed = replace(self.me, **changes)
        if changed != self.me:
            self.me = replace(changed, word=self.me.word + 1)

    def _believed(self) -> Iterable[Identity]:
        return self.company.values()

    def _highest(self) -> int:
        return max((peer.generation for peer in self._believed()), default=0)

    def _runs_without_me(self, peer: Identity, generation: int) -> bool:
        if peer.generation != generation or peer.stage is not Stage.RUNNING:
            return False
        if self.me.generation < generation:
            return True
        return len(self.known) >= len(self.peers) and peer.formation != self.formation

    def _stands(self, peer: Identity | None) -> bool:
        if peer is None or peer.generation != self.me.generation:
            return False
        if peer.stage is Stage.RUNNING:
            return peer.formation == self.formation
        return peer.stage is Stage.PARKED and peer.standby == self.me.standby
