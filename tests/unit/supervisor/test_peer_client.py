"""Where the peer client asks a peer: by its name, or where it calls from."""

from collections.abc import Iterator
from typing import Any

import pytest

from dtj_trainer.cluster.tf_config import Task, TfConfig
from dtj_trainer.supervisor.http import peer_client
from dtj_trainer.supervisor.http.peer_client import PeerAnswer, PeerClient
from dtj_trainer.supervisor.http.server import HttpServer
from dtj_trainer.supervisor.membership import Member, Refusal
from tests.support.ports import free_port
from tests.trainer.supervisor.conftest import until

PEER = Task("worker", 1)
NO_NAME = "a" * 64
SECONDS = 5


def member(index: int) -> Member:
    return Member("uid-1", 0, Task("worker", index), f"incarnation-{index}", "2.21.0")


class Calls:
    """Who called from where; answers as worker `index`."""

    def __init__(self, index: int) -> None:
        self.heard: list[tuple[Task, str]] = []
        self.index = index

    def meet(self, peer: Member, address: str) -> None:
        self.heard.append((peer.task, address))

    def member(self) -> Member:
        return member(self.index)


@pytest.fixture(params=[1])
def served(request: pytest.FixtureRequest) -> Iterator[tuple[int, Calls]]:
    calls: Any = Calls(request.param)
    port = free_port()
    server = HttpServer(port, calls)
    server.open()
    yield port, calls
    server.close()


def asking(host: str, port: int) -> tuple[PeerClient, list[PeerAnswer]]:
    answers: list[PeerAnswer] = []
    client = PeerClient({PEER: (host, port)}, answers.append)
    client.start()
    client.tell(member(0), asking=True)
    return client, answers


def until_last(answers: list[PeerAnswer], *, good: bool) -> None:
    until(lambda: answers and bool(answers[-1].problem) is not good, f"no answer that is {good=}", SECONDS)


def test_a_peer_whose_name_leads_nowhere_is_asked_where_it_calls_from(served):
    port, calls = served
    client, answers = asking(NO_NAME, port)
    until_last(answers, good=False)
    assert answers[-1].unresolved
    client.called(PEER, "127.0.0.1")
    until_last(answers, good=True)
    assert answers[-1].member == member(1)
    assert client.hosts() == {PEER: "127.0.0.1"}
    assert calls.heard[-1] == (Task("worker", 0), "127.0.0.1")


def test_a_peer_that_answers_to_its_name_is_asked_by_name(served):
    port, _ = served
    client, answers = asking("localhost", port)
    client.called(PEER, "127.0.0.2")
    until_last(answers, good=True)
    assert client.hosts() == {}


@pytest.mark.parametrize("served", [0], indirect=True)
def test_an_address_where_somebody_else_answers_counts_for_nothing(served):
    """As behind a proxy beside each pod, where all calls come from this machine."""
    port, calls = served
    client, answers = asking(NO_NAME, port)
    client.called(PEER, "127.0.0.1")
    until(lambda: calls.heard, "nobody was asked", SECONDS)
    seen = len(answers)
    until(lambda: len(answers) >= seen + 3, "it is not asked by its name again", SECONDS)
    assert answers[-1].unresolved
    assert client.hosts() == {}
    assert len(calls.heard) == 1


def test_a_cluster_on_other_hosts_keeps_its_ports():
    config = TfConfig({"worker": ("a:1", "b:2", "c:3")}, Task("worker", 0))
    moved = config.on({Task("worker", 1): "10.0.0.7", Task("worker", 2): "fd00::7"})
    assert moved.cluster == {"worker": ("a:1", "10.0.0.7:2", "[fd00::7]:3")}
    assert moved.endpoint(Task("worker", 2)) == ("fd00::7", 3)
    assert config.on({}) == config


def test_a_peer_whose_name_leads_to_another_job_is_asked_where_it_calls_from(monkeypatch):
    def call(task: Task, host: str, _port: int, _wire: bytes) -> PeerAnswer:
        return PeerAnswer(task, member(1)) if host == "10.0.0.9" else PeerAnswer(task, None, refusal=Refusal.OTHER_JOB)

    monkeypatch.setattr(peer_client, "call", call)
    client = PeerClient({PEER: ("name", 9401)}, lambda _: None)
    client.called(PEER, "10.0.0.9")
    assert client._ask(PEER, b"{}").member == member(1)
    assert client.hosts() == {PEER: "10.0.0.9"}
