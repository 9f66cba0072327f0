"""The HTTP server with callers who are not of the job, and the peer client with names that are none."""

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.supervisor.http import peer_client
from dtj_trainer.supervisor.http.server import HttpServer
from dtj_trainer.supervisor.membership import Member
from tests.support.ports import free_port

ENDPOINTS: Any = SimpleNamespace()


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


def test_a_closed_desk_has_left_its_port():
    port = free_port()
    for _ in range(20):
        server = HttpServer(port, ENDPOINTS)
        server.open()
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        server.close()


@pytest.mark.parametrize("text", [b'{"uid": "u", "attempt": Infinity}', b"[" * 60_000, b"[]", b'{"uid": 1}'])
def test_what_is_no_member_is_none(text: bytes):
    assert Member.from_json(text) is None


@pytest.mark.parametrize("host", ["a" * 64, "a..b"])
def test_a_peer_whose_name_can_be_none_is_not_resolved(host: str):
    answer = peer_client.call(Task("worker", 1), host, 9401, b"{}")
    assert answer.unresolved
    assert answer.problem == "its name does not resolve"
