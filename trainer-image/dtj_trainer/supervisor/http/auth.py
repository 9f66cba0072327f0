"""Signatures of what is sent to port 9401: HMAC-SHA256, keyed with the job's UID.

Whoever may read the job's pods knows the UID; nobody else does, because it is never sent and never shown. A signature
covers method, path, sender, receiver, time and body. It is valid for half a minute, and once.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heappop, heappush
from typing import Final

from dtj_trainer.cluster.tf_config import Task

VALID_SECONDS: Final = 30
"""How far the clocks of two pods may be apart, and how old a request may be."""
NANOSECONDS: Final = 1_000_000_000
EXEC: Final = "exec"
"""The sender of a request that a command inside the pod makes."""
REMEMBERED: Final = 64
"""So many times of requests are kept for each sender; its older ones are refused."""
HEADER_CHARACTERS: Final = 300


class Verdict(StrEnum):
    """Whether a request is accepted."""

    ACCEPTED = "accepted"
    FORGED = "forged"
    """Not signed with this job's UID for this receiver, or not from a member of its cluster."""
    LATE = "late"
    """Signed too long ago, or in the future."""
    REPLAYED = "replayed"


@dataclass(frozen=True, slots=True)
class Signature:
    """The value of the header X-DTJ-Signature."""

    sender: str
    receiver: str
    time: int
    """Unix time in nanoseconds."""
    mac: str

    def __str__(self) -> str:
        return f"{self.sender} {self.receiver} {self.time} {self.mac}"

    @classmethod
    def parse(cls, header: str) -> Signature | None:
        """Return the signature of a header; None where it holds none."""
        words = header[:HEADER_CHARACTERS].split(" ")
        if len(words) != 4 or not (words[2].isascii() and words[2].isdecimal()) or not words[3].isascii():  # noqa: PLR2004 - its parts
            return None
        return cls(words[0], words[1], int(words[2]), words[3])


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A request as it arrived."""

    method: str
    path: str
    """With its query."""
    body: bytes
    header: str
    """X-DTJ-Signature; empty without one."""
    local: bool
    """It comes from this pod's loopback address."""

    @property
    def signature(self) -> Signature | None:
        """The signature that it carries, not checked."""
        return Signature.parse(self.header)


@dataclass(slots=True)
class _Seen:
    """The times of the requests of one sender that were accepted."""

    before: int = 0
    """All up to this time count as seen."""
    times: list[int] = field(default_factory=list)
    """A heap."""

    def add(self, at: int) -> bool:
        """Add a time; returns False if it was there."""
        if at <= self.before or at in self.times:
            return False
        heappush(self.times, at)
        if len(self.times) > REMEMBERED:
            self.before = heappop(self.times)
        return True


class Authenticator:
    """Signs what this pod sends, and checks what it receives."""

    def __init__(self, uid: str, me: Task, members: Collection[Task], clock: Callable[[], int] = time.time_ns) -> None:
        """Set up; `members`: whose requests are accepted. Without a UID, those from loopback are, and no others."""
        self.keyed = bool(uid)
        self.me = name_of(me)
        self._key = uid.encode()
        self._senders = frozenset({EXEC, *map(name_of, members)})
        self._clock = clock
        self._lock = threading.Lock()
        self._last = 0
        self._seen: dict[str, _Seen] = {}

    def sign(self, method: str, path: str, receiver: str, body: bytes = b"") -> str:
        """Return the header of a request."""
        return str(self._signed(self.me, receiver, self._now(), method, path, body))

    def sign_command(self, method: str, path: str) -> str:
        """Return the header of a request that a command inside this pod makes."""
        return str(self._signed(EXEC, self.me, self._now(), method, path, b""))

    def check(self, request: SignedRequest) -> Verdict:
        """Return whether a request is accepted."""
        if not self.keyed:
            return Verdict.ACCEPTED if request.local else Verdict.FORGED
        given = request.signature
        if given is None or given.sender not in self._senders or given.receiver != self.me:
            return Verdict.FORGED
        wanted = self._signed(given.sender, given.receiver, given.time, request.method, request.path, request.body)
        if not hmac.compare_digest(given.mac, wanted.mac):
            return Verdict.FORGED
        if abs(given.time - self._clock()) > VALID_SECONDS * NANOSECONDS:
            return Verdict.LATE
        with self._lock:
            new = self._seen.setdefault(given.sender, _Seen()).add(given.time)
        return Verdict.ACCEPTED if new else Verdict.REPLAYED

    def sign_answer(self, request: SignedRequest, status: int, body: bytes) -> str:
        """Return the header of the answer to a peer: it covers the signature of its request, so it fits no other."""
        given = request.signature
        receiver = given.sender if given else ""
        signed = self._signed(self.me, receiver, self._now(), f"{status}", request.path, body, request.header)
        return str(signed)

    def answer_time(self, request: str, path: str, header: str, status: int, body: bytes) -> int | None:
        """Return when the peer signed its answer to our request with that header; None where it did not."""
        asked, given = Signature.parse(request), Signature.parse(header)
        if asked is None or given is None or (given.sender, given.receiver) != (asked.receiver, asked.sender):
            return None
        wanted = self._signed(given.sender, given.receiver, given.time, f"{status}", path, body, request)
        return given.time if hmac.compare_digest(given.mac, wanted.mac) else None

    def _now(self) -> int:
        """Return the time; each value once, as it tells two requests apart."""
        with self._lock:
            self._last = max(self._clock(), self._last + 1)
            return self._last

    def _signed(
        self, sender: str, receiver: str, at: int, method: str, path: str, body: bytes, answered: str = ""
    ) -> Signature:
        text = "\n".join((method, path, sender, receiver, f"{at}", answered, "")).encode("utf-8", "surrogateescape")
        return Signature(sender, receiver, at, hmac.new(self._key, text + body, hashlib.sha256).hexdigest())


def name_of(task: Task) -> str:
    """Return the name of a task in a signature."""
    return f"{task.role}-{task.index}"
