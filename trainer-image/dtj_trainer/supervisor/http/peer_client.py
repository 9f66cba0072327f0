"""The client of the peers: sends every change of this pod's member, and receives theirs.

One thread a peer, so that a slow name server or a dead address holds up nobody else. It asks again without a change
only while we wait for the peers, or our process makes no progress.
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.contract import SIGNATURE_HEADER
from dtj_trainer.supervisor.http.auth import NANOSECONDS, VALID_SECONDS, Authenticator, name_of
from dtj_trainer.supervisor.membership import Member, Refusal

PEER_PATH: Final = "/peer"
CALL_SECONDS: Final = 2.0
FIRST_RETRY_SECONDS: Final = 0.05
LAST_RETRY_SECONDS: Final = 0.5
ASK_SECONDS: Final = 0.25
"""Between two questions while we wait for the peers."""
LOOK_SECONDS: Final = 2.0
"""Between two questions while the process makes no progress."""
ANSWER_BYTES: Final = 4_096
PASSING_THREADS: Final = 8


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """The result of one call to a peer."""

    task: Task
    member: Member | None
    refusal: Refusal | None = None
    problem: str = ""
    """Why there was no answer, for people; empty when there was one."""
    unresolved: bool = False
    silent: bool = False
    """The kernel of its pod accepted the call, and no process answered it."""
    other_clock: bool = False
    """Its clock and ours differ by more than a signature may be old."""


class PeerClient:
    """A client that sends the newest member to all peers."""

    def __init__(
        self, peers: Mapping[Task, tuple[str, int]], auth: Authenticator, on_answer: Callable[[PeerAnswer], None]
    ) -> None:
        self._peers = peers
        self._auth = auth
        self._on_answer = on_answer
        self._changed = threading.Condition()
        self._body = b""
        self._version = 0
        self._ask_every: float | None = None
        self._told: dict[Task, int] = {}
        self._callers: dict[Task, str] = {}
        self._hosts: dict[Task, str] = {}

    def start(self) -> None:
        """Start one daemon thread a peer."""
        for task in self._peers:
            threading.Thread(target=self._serve, args=(task,), name=f"dtj-peer-{task}", daemon=True).start()

    def tell(self, member: Member, *, ask_every: float | None) -> None:
        """Tell every peer; go on asking every so many seconds, until told otherwise, where that is given."""
        body = member.to_json()
        with self._changed:
            if body != self._body or ask_every != self._ask_every:
                self._body, self._ask_every = body, ask_every
                self._version += 1
                self._changed.notify_all()

    def all_told(self) -> bool:
        """Return whether every peer has the newest member."""
        with self._changed:
            return all(self._told.get(task) == self._version for task in self._peers)

    def called(self, task: Task, address: str) -> None:
        """Remember from where a peer has called: where nobody answers to its name, it is asked there."""
        with self._changed:
            if task in self._peers and self._callers.get(task) != address:
                self._callers[task] = address
                self._changed.notify_all()

    def hosts(self) -> dict[Task, str]:
        """Return the addresses of the peers that answer there, and not to their names.

        Name servers keep what they know for half a minute: a new pod in a peer's place calls long before its name
        leads to it.
        """
        with self._changed:
            return dict(self._hosts)

    def _ask(self, task: Task, body: bytes) -> PeerAnswer:
        name, port = self._peers[task]
        answer, host = call(self._auth, task, name, port, body), None
        with self._changed:
            caller = self._callers.get(task)
        elsewhere = answer.problem or answer.refusal is Refusal.OTHER_JOB  # the name may lead to where it was before
        if elsewhere and caller is not None:
            there = call(self._auth, task, caller, port, body)
            if there.member is not None or there.refusal is Refusal.OLDER_ATTEMPT:
                answer, host = there, caller
        with self._changed:
            if host is not None:
                self._hosts[task] = host
            else:
                self._hosts.pop(task, None)
                if elsewhere and self._callers.get(task) == caller:
                    self._callers.pop(task, None)  # it is gone, or something stands between the pods
        return answer

    def _serve(self, task: Task) -> None:
        retry = FIRST_RETRY_SECONDS
        told = 0
        while True:
            with self._changed:
                if told == self._version:
                    self._changed.wait(self._ask_every)
                body, version = self._body, self._version
            if not body:
                continue
            answer = self._ask(task, body)
            self._on_answer(answer)
            if answer.problem:
                with self._changed:
                    self._changed.wait(retry)
                retry = min(retry * 1.5, LAST_RETRY_SECONDS)
            else:
                retry = FIRST_RETRY_SECONDS
                told = version
                with self._changed:
                    self._told[task] = version


def call(auth: Authenticator, task: Task, host: str, port: int, body: bytes) -> PeerAnswer:
    """POST our member and return the peer's."""
    signed = auth.sign("POST", PEER_PATH, name_of(task), body)
    connection = http.client.HTTPConnection(host, port, timeout=CALL_SECONDS)
    asked, connected = time.time_ns(), False
    try:
        connection.connect()
        connected = True
        connection.request("POST", PEER_PATH, body, {"Content-Type": "application/json", SIGNATURE_HEADER: signed})
        response = connection.getresponse()
        text = response.read(ANSWER_BYTES)
    except (OSError, UnicodeError) as error:  # UnicodeError: no name at all, as one with a part of 64 letters
        unresolved = isinstance(error, socket.gaierror | UnicodeError)
        problem = "its name does not resolve" if unresolved else f"it does not answer ({words_of(error)})"
        silent = connected and isinstance(error, TimeoutError)
        return PeerAnswer(task, None, problem=problem, unresolved=unresolved, silent=silent)
    except http.client.HTTPException as error:
        return PeerAnswer(task, None, problem=f"something else answers there ({words_of(error)})")
    finally:
        connection.close()
    status, header = response.status, response.getheader(SIGNATURE_HEADER, "")
    answered = auth.answer_time(signed, PEER_PATH, header, status, text)
    if answered is None:
        return _strangers_answer(auth, task, status)
    return _late_answer(task, asked, answered) if status == HTTPStatus.FORBIDDEN else _peers_answer(task, status, text)


def _peers_answer(task: Task, status: int, text: bytes) -> PeerAnswer:
    """Return what the signed answer of a peer means."""
    if status == HTTPStatus.CONFLICT and text.decode(errors="replace") in set(Refusal):
        return PeerAnswer(task, None, refusal=Refusal(text.decode()))
    member = Member.from_json(text) if status == HTTPStatus.OK else None
    if member is None or member.task != task:
        return PeerAnswer(task, None, problem="something else answers there")
    return PeerAnswer(task, member)


def _strangers_answer(auth: Authenticator, task: Task, status: int) -> PeerAnswer:
    """Return what an answer means that the peer has not signed."""
    if status != HTTPStatus.FORBIDDEN:
        return PeerAnswer(task, None, problem="something else answers there")
    if auth.keyed:
        return PeerAnswer(task, None, refusal=Refusal.OTHER_JOB)
    problem = "without DTJ_UID it accepts requests from its own pod alone; set one secret of the job in all its pods"
    return PeerAnswer(task, None, problem=problem)


def _late_answer(task: Task, asked: int, answered: int) -> PeerAnswer:
    """Return the answer of a peer to which our request came from the past or the future."""
    if asked - VALID_SECONDS * NANOSECONDS <= answered <= time.time_ns() + VALID_SECONDS * NANOSECONDS:
        return PeerAnswer(task, None, problem="our request took too long to reach it")
    problem = f"its clock says {_utc(answered)} and this pod's {_utc(asked)}"
    return PeerAnswer(task, None, problem=problem, other_clock=True)


def _utc(nanoseconds: int) -> str:
    return f"{datetime.fromtimestamp(nanoseconds / NANOSECONDS, UTC):%Y-%m-%dT%H:%M:%SZ}"


def words_of(error: Exception) -> str:
    """Return what a failed call says, to be put into a sentence."""
    return str(getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()


def pass_on(auth: Authenticator, others: Mapping[Task, tuple[str, int]], path: str) -> None:
    """POST to all other pods, a few at a time, on threads; silence is fine."""
    waiting = deque(others.items())
    for _ in range(min(PASSING_THREADS, len(waiting))):
        threading.Thread(target=_pass_on, args=(auth, waiting, path), daemon=True).start()


def _pass_on(auth: Authenticator, waiting: deque[tuple[Task, tuple[str, int]]], path: str) -> None:
    while waiting:
        try:
            task, (host, port) = waiting.popleft()
        except IndexError:  # another thread was faster
            return
        connection = http.client.HTTPConnection(host, port, timeout=CALL_SECONDS)
        try:
            connection.request("POST", path, b"", {SIGNATURE_HEADER: auth.sign("POST", path, name_of(task))})
            connection.getresponse()
        except (OSError, UnicodeError, http.client.HTTPException):
            continue
        finally:
            connection.close()
