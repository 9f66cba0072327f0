"""DNS, TCP and gRPC probes of other tasks, and waiting on them.

Under `dtj-run` the supervisors have already agreed that every peer is there and of this job
(docs/decisions/010-membership.md); what is left is the leader's TensorFlow port: whoever calls
it before it listens loses 1.05 s in gRPC's first connect back-off.
Standard library only.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Final

from dtj_trainer.cluster.tf_config import Task, TfConfig
from dtj_trainer.errors import PeersNotReady

GENERATION: Final = "DTJ_GENERATION"
"""Set by the supervisor: the generation of the cluster that it let this process join."""
POLL_SECONDS: Final = 0.005
SERVER_POLL_SECONDS: Final = 0.1
LONG_POLL_SECONDS: Final = 0.25
"""The longest pause between two probes of a peer that is slow."""
CONNECT_SECONDS: Final = 1.0
PROBE_SECONDS: Final = 3.0
HTTP2_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""Connection preface and an empty SETTINGS frame."""


def await_peers(config: TfConfig, seconds: float) -> None:
    """Return when the name of every chief and worker resolves.

    Under `dtj-run` at once: the supervisors agreed on the members before this process was started.
    Raises PeersNotReady naming the peer after `seconds`.
    """
    if os.environ.get(GENERATION):
        return
    deadline = time.monotonic() + seconds
    for task in config.training_tasks:
        while not resolves(config.endpoint(task)[0]):
            if time.monotonic() >= deadline:
                raise unresolved(task, config.address(task), seconds)
            time.sleep(0.2)


def await_leader(config: TfConfig, seconds: float) -> bool:
    """Return when the leader's TensorFlow port accepts a connection, at once in the leader.

    False after `seconds` without a connection: it is still correct to continue, only slower.
    """
    if config.is_leader or len(config.training_tasks) == 1:
        return True
    host, port = config.endpoint(config.leader)
    began = time.monotonic()
    while not accepts(host, port):
        waited = time.monotonic() - began
        if waited >= seconds:
            return False
        time.sleep(min(LONG_POLL_SECONDS, max(POLL_SECONDS, waited / 20)))
    return True


def await_prepared_leader(config: TfConfig, seconds: float) -> bool:
    """Return when the leader's program has come to the point where TensorFlow listens; False as `await_leader`.

    What it prepares before that may take any time under `dtj-run`, whose supervisors end this process when the leader
    is lost. A leader that refuses connections prepares; one that drops them cannot be reached.
    """
    while not await_leader(config, seconds):
        if not (os.environ.get(GENERATION) and refuses(*config.endpoint(config.leader))):
            return False
    return True


def await_servers(config: TfConfig, seconds: float) -> None:
    """Return when every worker and ps listens, because TensorFlow would wait without a message.

    Raises PeersNotReady naming the server after `seconds`.
    """
    deadline = time.monotonic() + seconds
    for task in config.serving_tasks:
        while not accepts(*config.endpoint(task)):
            if time.monotonic() >= deadline:
                raise PeersNotReady(
                    f"{task} ({config.address(task)}) does not answer after {seconds:g} s; "
                    "check that its pod runs and that the port is open"
                )
            time.sleep(SERVER_POLL_SECONDS)


def resolves(host: str) -> bool:
    """Return whether the name resolves now."""
    try:
        return bool(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError):  # the latter: no name at all, as one with a part of 64 letters
        return False


def accepts(host: str, port: int) -> bool:
    """Return whether a server listens there now."""
    try:
        with socket.create_connection((host, port), timeout=CONNECT_SECONDS):
            return True
    except OSError:
        return False


def refuses(host: str, port: int) -> bool:
    """Return whether the host is there and nothing listens at that port."""
    try:
        with socket.create_connection((host, port), timeout=CONNECT_SECONDS):
            return False
    except ConnectionRefusedError:
        return True
    except OSError:
        return False


def serves(host: str, port: int) -> bool:
    """Return whether a gRPC server responds there: for a frozen process the kernel still accepts connections.

    Sends the connection preface of HTTP/2 (RFC 9113, section 3.4) and waits for the server's first frame.
    """
    try:
        with socket.create_connection((host, port), timeout=PROBE_SECONDS) as connection:
            connection.sendall(HTTP2_PREFACE)
            return bool(connection.recv(9))
    except OSError:
        return False


def unresolved(task: Task, address: str, seconds: float) -> PeersNotReady:
    """Return the error for a name that did not resolve."""
    return PeersNotReady(
        f"the name of {task} ({address}) does not resolve after {seconds:g} s; "
        "check that its pod exists and that the job's service is there"
    )
