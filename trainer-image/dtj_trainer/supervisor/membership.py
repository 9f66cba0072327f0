"""Which cluster is formed next, agreed between supervisors without a leader.

What torchelastic calls rendezvous. Every attempt to form the cluster has a number, its generation. A supervisor that
lost its process wants the next one; one that hears of a higher number gives its process up and adopts that number. A
process is started when every member is ready at the same generation, with the same set of supervisors.
docs/decisions/010-membership.md has the reasons.

Pure: no I/O, no clock.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from dtj_trainer.cluster.tf_config import Task

MAX_CAUSE: Final = 32
"""Characters that are kept of a peer's word."""


class MemberState(StrEnum):
    """The state of a supervisor in its generation; the values are part of the messages between pods."""

    LEAVING = "leaving"
    """A process of an older generation may still live."""
    READY = "parked"
    """Nothing of an older generation lives; it waits for the others."""
    RUNNING = "running"
    SERVING = "serving"
    """A server role that serves."""
    DONE = "done"


_STARTED: Final = frozenset({MemberState.RUNNING, MemberState.DONE})


class Refusal(StrEnum):
    """The reason why a peer's message is refused."""

    OTHER_JOB = "other-job"
    OLDER_ATTEMPT = "older-attempt"


@dataclass(frozen=True, slots=True)
class Member:
    """The state of a supervisor as its peers know it."""

    job: str
    """The job's hash."""
    attempt: int
    task: Task
    incarnation: str
    """Random, new with each supervisor process."""
    tensorflow: str
    """TensorFlow's version."""
    generation: int = 0
    state: MemberState = MemberState.LEAVING
    member_set: str = ""
    """Digest of the members' incarnations that its process was started with."""
    standby: bool = False
    """Its process formed the cluster with its peers' ahead of time, as their standbys."""
    standby_port: int = 0
    """Where TensorFlow listens in every other cluster formed ahead of time; 0: it forms none."""
    cause: str = ""
    """Why its last process ended, where that was no consequence of what happened to a peer."""
    in_callback: bool = False
    """A callback of its process takes its time, for which the peers wait in their next step."""
    sequence: int = 0
    """How many changes of the above came before. Answers and calls overtake each other: the highest number counts."""

    def to_json(self) -> bytes:
        """Return the body of POST /peer."""
        body = {
            "job": self.job,
            "attempt": self.attempt,
            "role": self.task.role,
            "index": self.task.index,
            "incarnation": self.incarnation,
            "tensorflow": self.tensorflow,
            "generation": self.generation,
            "stage": self.state,
            "formation": self.member_set,
            "standby": self.standby,
            "standby_port": self.standby_port,
            "cause": self.cause,
            "in_callback": self.in_callback,
            "word": self.sequence,
        }
        return json.dumps(body, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Member | None:
        """Return the member in a body of POST /peer; None if there is none."""
        try:
            body = json.loads(text)
            return cls(
                job=str(body["job"]),
                attempt=int(body["attempt"]),
                task=Task(str(body["role"]), int(body["index"])),
                incarnation=str(body["incarnation"]),
                tensorflow=str(body["tensorflow"]),
                generation=int(body["generation"]),
                state=MemberState(body["stage"]),
                member_set=str(body["formation"]),
                standby=bool(body.get("standby")),
                standby_port=int(body.get("standby_port", 0)),
                cause=str(body.get("cause", ""))[:MAX_CAUSE],
                in_callback=bool(body.get("in_callback")),
                sequence=int(body.get("word", 0)),
            )
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None


def refusal_of(peer: Member, me: Member, known: Mapping[Task, Member]) -> Refusal | None:
    """Return why a peer's message is refused; None if it is accepted."""
    if peer.job != me.job:
        return Refusal.OTHER_JOB
    if peer.task in known and peer.attempt < known[peer.task].attempt:
        return Refusal.OLDER_ATTEMPT
    return None


class Membership:
    """A supervisor's view of the cluster that has to form."""

    def __init__(self, me: Member, peers: Iterable[Task]) -> None:
        self.me = me
        self.peers = tuple(peers)
        self.known: dict[Task, Member] = {}

    def receive(self, peer: Member) -> Refusal | None:
        """Apply a peer's message; returns the reason if it is refused."""
        refusal = refusal_of(peer, self.me, self.known)
        if refusal is not None:
            return refusal
        known = self.known.get(peer.task)
        if known is not None and known.incarnation == peer.incarnation and peer.sequence < known.sequence:
            return None  # overtaken on its way
        self.known[peer.task] = peer
        return None

    def process_lost(self, cause: str = "") -> None:
        """Go to the next generation: this pod's process is gone or about to go, for that cause if it has its own."""
        lost = replace(self.me, state=MemberState.LEAVING, member_set="", standby=False, cause=cause)
        self._become(replace(lost, generation=self.me.generation + 1))

    def set_state(self, state: MemberState) -> None:
        """Set the state of this member."""
        member_set = self.current_member_set if state is MemberState.RUNNING else self.me.member_set
        self._become(replace(self.me, state=state, member_set=member_set))

    def set_ready(self, *, standby: bool) -> None:
        """Set the state to ready: there is a process that can be started, a new one or the standby."""
        self._become(replace(self.me, state=MemberState.READY, standby=standby))

    def set_in_callback(self, *, in_callback: bool) -> None:
        """Announce whether a callback of this pod's process takes its time."""
        self._become(replace(self.me, in_callback=in_callback))

    @property
    def peer_in_callback(self) -> bool:
        """Whether a callback of a peer's process takes its time."""
        return any(peer.in_callback for peer in self.known_peers.values())

    def dismiss_standby(self) -> None:
        """Use a new process in the same generation, because the standby is unusable."""
        self._become(replace(self.me, state=MemberState.LEAVING, standby=False))

    def keep_no_standby(self) -> None:
        """Announce that this pod will exit: peers make no standby that would need one here."""
        self._become(replace(self.me, standby_port=0))

    @property
    def standby_abandoned(self) -> bool:
        """Whether this member is ready with a standby, but a peer joins its generation with a new process."""
        return self.me.standby and any(
            peer.generation == self.me.generation and peer.state is MemberState.READY and not peer.standby
            for peer in self.known_peers.values()
        )

    @property
    def all_running(self) -> bool:
        """Whether all known members run in this cluster."""
        return self.me.state is MemberState.RUNNING and all(
            peer.state is MemberState.RUNNING and peer.member_set == self.me.member_set
            for peer in self.known_peers.values()
        )

    @property
    def superseded(self) -> bool:
        """Whether the process, which runs or is done, belongs to a cluster that a peer has left."""
        return self.me.state in _STARTED and self._highest_generation() > self.me.generation

    def adopt_generation(self) -> bool:
        """Go to the highest generation of the peers; returns whether that changed.

        Called while no process runs. A generation that already runs without this member cannot be joined: it goes to
        the next one.
        """
        wanted = max(self.me.generation, self._highest_generation(), 1)
        while any(self._runs_without_me(peer, wanted) for peer in self.known_peers.values()):
            wanted += 1
        if wanted == self.me.generation:
            return False
        self._become(replace(self.me, generation=wanted, member_set=""))
        return True

    @property
    def complete(self) -> bool:
        """Whether all members are ready at this generation."""
        return self.me.state is MemberState.READY and not self.missing()

    def missing(self) -> list[Task]:
        """Return the members that are not ready at this generation."""
        return [task for task in self.peers if not self._is_ready(self.known.get(task))]

    def other_version(self) -> Member | None:
        """Return a peer with another TensorFlow."""
        for peer in self.known.values():
            if peer.tensorflow and self.me.tensorflow and peer.tensorflow != self.me.tensorflow:
                return peer
        return None

    @property
    def current_member_set(self) -> str:
        """Return the digest of the known members' incarnations, and of the kind of their processes (new or standby)."""
        members: Mapping[Task, Member] = {**self.known, self.me.task: self.me}
        names = (
            f"{task}:{members[task].incarnation}" for task in sorted((*self.peers, self.me.task)) if task in members
        )
        return hashlib.sha256("\n".join((*names, str(self.me.standby))).encode()).hexdigest()[:16]

    @property
    def known_peers(self) -> Mapping[Task, Member]:
        """The peers that are known."""
        return {task: self.known[task] for task in self.peers if task in self.known}

    def _become(self, me: Member) -> None:
        if me != self.me:
            self.me = replace(me, sequence=self.me.sequence + 1)

    def _highest_generation(self) -> int:
        return max((peer.generation for peer in self.known_peers.values()), default=0)

    def _runs_without_me(self, peer: Member, generation: int) -> bool:
        if peer.generation != generation or peer.state not in _STARTED:
            return False
        if self.me.generation < generation:
            return True
        return len(self.known) >= len(self.peers) and peer.member_set != self.current_member_set

    def _is_ready(self, peer: Member | None) -> bool:
        if peer is None or peer.generation != self.me.generation:
            return False
        if peer.state is MemberState.RUNNING:
            return peer.member_set == self.current_member_set
        return peer.state is MemberState.READY and peer.standby == self.me.standby
