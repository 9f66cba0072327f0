"""The HTTP server with callers who are not of the job, and the peer client with names that are none."""

import contextlib
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.supervisor.http import peer_client
from dtj_trainer.supervisor.http import server as server_module
from dtj_trainer.supervisor.http.auth import Authenticator
from dtj_trainer.supervisor.http.server import HttpServer
from dtj_trainer.supervisor.membership import Member
from tests.support.ports import free_port

ENDPOINTS: Any = SimpleNamespace(healthy=lambda: True)


@pytest.fixture
def port() -> Iterator[int]:
    """Of an open server."""
    server = HttpServer(port := free_port(), ENDPOINTS)
    server.open()
    yield port
    server.close()


@pytest.mark.parametrize("length", ["-1", "many", "1e9"])
def test_a_body_of_no_known_length_is_not_read(port: int, length: str):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as stranger:
        stranger.sendall(f"POST /peer HTTP/1.0\r\nContent-Length: {length}\r\n\r\n".encode())
        assert b" 400 " in stranger.recv(100)


@pytest.mark.parametrize("length", ["4097", "99999999999999999999"])
def test_a_large_body_is_not_read(port: int, length: str):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as stranger:
        stranger.sendall(f"POST /peer HTTP/1.0\r\nContent-Length: {length}\r\n\r\n".encode())
        assert b" 413 " in stranger.recv(100)


def cut_off(stranger: socket.socket, sent: bytes, pause: float) -> bool:
    """Send the same again and again; returns whether the server has cut that off without an answer."""
    until = time.monotonic() + 5
    with contextlib.suppress(ConnectionError):
        while time.monotonic() < until:
            stranger.sendall(sent)
            time.sleep(pause)
    with contextlib.suppress(ConnectionError):
        return stranger.recv(100) == b""
    return time.monotonic() < until


def test_a_header_without_end_is_not_read(port: int):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as stranger:
        stranger.sendall(b"GET /healthz HTTP/1.0\r\nX-Y: ")
        assert cut_off(stranger, b"z" * server_module.REQUEST_BYTES, 0.0)


def test_a_request_that_trickles_in_is_given_up(port: int, monkeypatch):
    monkeypatch.setattr(server_module, "REQUEST_SECONDS", 0.3)
    with socket.create_connection(("127.0.0.1", port), timeout=5) as stranger:
        assert cut_off(stranger, b"G", 0.05)


def test_many_idle_connections_take_few_threads_and_nobody_elses_place(port: int):
    before = threading.active_count()
    idle = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(3 * server_module.CONNECTIONS)]
    assert threading.active_count() <= before + server_module.CONNECTIONS
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
        assert answer.status == 200
    for each in idle:
        each.close()


def test_a_closed_desk_has_left_its_port():
    port = free_port()
    for _ in range(20):
        server = HttpServer(port, ENDPOINTS)
        server.open()
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        server.close()


@pytest.mark.parametrize("text", [b'{"job": "u", "attempt": Infinity}', b"[" * 60_000, b"[]", b'{"job": 1}'])
def test_what_is_no_member_is_none(text: bytes):
    assert Member.from_json(text) is None


@pytest.mark.parametrize("host", ["a" * 64, "a..b"])
def test_a_peer_whose_name_can_be_none_is_not_resolved(host: str):
    auth = Authenticator("", Task("worker", 0), ())
    answer = peer_client.call(auth, Task("worker", 1), host, 9401, b"{}")
    assert answer.unresolved
    assert answer.problem == "its name does not resolve"
