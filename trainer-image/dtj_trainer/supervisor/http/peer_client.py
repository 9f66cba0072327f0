"""Telling the peers where we stand, and hearing where they stand.

One thread a peer, so that a slow name server or a dead address holds up nobody else. Each tells
its peer every change at once; it asks again on its own only while we wait for the peer.
"""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.supervisor.membership import Identity, Refusal

PEER_PATH: Final = "/peer"
CALL_SECONDS: Final = 2.0
FIRST_RETRY_SECONDS: Final = 0.05
LAST_RETRY_SECONDS: Final = 0.5
ASK_SECONDS: Final = 0.25
BODY_BYTES: Final = 65536


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one call."""

    task: Task
    identity: Identity | None
    refusal: Refusal | None = None
    trouble: str = ""
    """Why there was no answer, in words; empty when there was one."""
    unresolved: bool = False


class Messenger:
    """Keeps the peers informed of the newest identity."""

    def __init__(self, peers: Mapping[Task, tuple[str, int]], hear: Callable[[Answer], None]) -> None:
        self._peers = peers
        self._hear = hear
        self._changed = threading.Condition()
        self._identity = b""
        self._version = 0
        self._asking = False
        self._told: dict[Task, int] = {}
        self._callers: dict[Task, str] = {}
        self._hosts: dict[Task, str] = {}

    def start(self) -> None:
        """One daemon thread a peer."""
        for task in self._peers:
            threading.Thread(target=self._serve, args=(task,), name=f"dtj-peer-{task}", daemon=True).start()

    def tell(self, identity: Identity, *, asking: bool) -> None:
        """Tell every peer; `asking`: go on asking until told otherwise."""
        wire = identity.wire()
        with self._changed:
            if wire != self._identity or asking != self._asking:
                self._identity, self._asking = wire, asking
                self._version += 1
                self._changed.notify_all()

    def all_told(self) -> bool:
        """Whether every peer has the newest identity."""
        with self._changed:
            return all(self._told.get(task) == self._version for task in self._peers)

    def called(self, task: Task, address: str) -> None:
        """A peer has called from there: where nobody answers to its name, it is asked there."""
        with self._changed:
            if task in self._peers and self._callers.get(task) != address:
                self._callers[task] = address
                self._changed.notify_all()

    def hosts(self) -> dict[Task, str]:
        """Addresses of the peers who answer there, and not to their names.

        Name servers keep what they know for half a minute: a new pod in a peer's place calls long before its name
        leads to it.
        """
        with self._changed:
            return dict(self._hosts)

    def _ask(self, task: Task, wire: bytes) -> Answer:
        name, port = self._peers[task]
        answer, host = call(task, name, port, wire), None
        with self._changed:
            caller = self._callers.get(task)
        elsewhere = answer.trouble or answer.refusal is Refusal.OTHER_JOB  # the name may lead to where it was before
        if elsewhere and caller is not None:
            there = call(task, caller, port, wire)
            if there.identity is not None or there.refusal is Refusal.OLDER_ATTEMPT:
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
                    self._changed.wait(ASK_SECONDS if self._asking else None)
                wire, version = self._identity, self._version
            if not wire:
                continue
            answer = self._ask(task, wire)
            self._hear(answer)
            if answer.trouble:
                with self._changed:
                    self._changed.wait(retry)
                retry = min(retry * 1.5, LAST_RETRY_SECONDS)
            else:
                retry = FIRST_RETRY_SECONDS
                told = version
                with self._changed:
                    self._told[task] = version


def call(task: Task, host: str, port: int, wire: bytes) -> Answer:
    """POST our identity, read the peer's."""
    connection = http.client.HTTPConnection(host, port, timeout=CALL_SECONDS)
    try:
        connection.request("POST", PEER_PATH, wire, {"Content-Type": "application/json"})
        response = connection.getresponse()
        body = response.read(BODY_BYTES)
    except (OSError, UnicodeError) as error:  # UnicodeError: no name at all, as one with a part of 64 letters
        unresolved = isinstance(error, socket.gaierror | UnicodeError)
        words = "its name does not resolve" if unresolved else f"it does not answer ({_words(error)})"
        return Answer(task, None, trouble=words, unresolved=unresolved)
    except http.client.HTTPException as error:
        return Answer(task, None, trouble=f"something else answers there ({_words(error)})")
    finally:
        connection.close()
    if response.status == HTTPStatus.CONFLICT:
        try:
            return Answer(task, None, refusal=Refusal(body.decode()))
        except ValueError:
            return Answer(task, None, trouble="something else answers there")
    identity = Identity.read(body) if response.status == HTTPStatus.OK else None
    if identity is None or identity.task != task:
        return Answer(task, None, trouble="something else answers there")
    return Answer(task, identity)


def _words(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()


def pass_on(host: str, port: int, path: str, headers: Mapping[str, str]) -> None:
    """POST without waiting for more than the answer's first line; silence is fine."""
    connection = http.client.HTTPConnection(host, port, timeout=CALL_SECONDS)
    try:
        connection.request("POST", path, b"", dict(headers))
        connection.getresponse()
    except (OSError, http.client.HTTPException):
        return
    finally:
        connection.close()
