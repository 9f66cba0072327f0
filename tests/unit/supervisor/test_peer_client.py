"""Where the peer client asks a peer: by its name, or where it calls from."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dtj_trainer.cluster.tf_config import Task, TfConfig
from dtj_trainer.supervisor.http import peer_client
from dtj_trainer.supervisor.http.auth import NANOSECONDS, Authenticator, SignedRequest, Verdict
from dtj_trainer.supervisor.http.endpoints import Answer
from dtj_trainer.supervisor.http.peer_client import PeerAnswer, PeerClient
from dtj_trainer.supervisor.http.server import HttpServer
from dtj_trainer.supervisor.membership import Member, Refusal
from tests.support.ports import free_port
from tests.trainer.supervisor.conftest import until

ME, PEER = Task("worker", 0), Task("worker", 1)
NO_NAME = "a" * 64
SECONDS = 5


def auth(uid: str = "uid-1", clock: Callable[[], int] = time.time_ns) -> Authenticator:
    return Authenticator(uid, ME, [PEER], clock)


def member(index: int) -> Member:
    return Member("uid-1", 0, Task("worker", index), f"incarnation-{index}", "2.21.0")


class Calls:
    """Who called from where; answers as worker `index`."""

    def __init__(self, index: int) -> None:
        self.heard: list[tuple[Task, str]] = []
        self.index = index
        self.auth = Authenticator("uid-1", Task("worker", index), [ME])
        self.sign = self.auth.sign_answer

    def meet(self, request: SignedRequest, address: str) -> Answer:
        told = Member.from_json(request.body)
        assert told is not None
        self.heard.append((told.task, address))
        status = {Verdict.ACCEPTED: 200}.get(self.auth.check(request), 403)
        body = member(self.index).to_json() if status == 200 else b""
        return Answer(status, body, self.sign(request, status, body))


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
    client = PeerClient({PEER: (host, port)}, auth(), answers.append)
    client.start()
    client.tell(member(0), ask_every=peer_client.ASK_SECONDS)
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
    def call(_auth: Authenticator, task: Task, host: str, _port: int, _wire: bytes) -> PeerAnswer:
        return PeerAnswer(task, member(1)) if host == "10.0.0.9" else PeerAnswer(task, None, refusal=Refusal.OTHER_JOB)

    monkeypatch.setattr(peer_client, "call", call)
    client = PeerClient({PEER: ("name", 9401)}, auth(), lambda _: None)
    client.called(PEER, "10.0.0.9")
    assert client._ask(PEER, b"{}").member == member(1)
    assert client.hosts() == {PEER: "10.0.0.9"}


def ask(port: int, signer: Authenticator) -> PeerAnswer:
    return peer_client.call(signer, PEER, "127.0.0.1", port, member(0).to_json())


def test_a_peer_that_knows_another_secret_is_of_another_job(served):
    port, calls = served
    calls.sign = Authenticator("uid-2", PEER, []).sign_answer
    calls.auth = Authenticator("uid-2", PEER, [ME])
    assert ask(port, auth()).refusal is Refusal.OTHER_JOB


def test_an_answer_that_is_not_signed_with_our_secret_is_not_believed(served):
    port, calls = served
    calls.sign = Authenticator("uid-2", PEER, []).sign_answer
    assert ask(port, auth()) == PeerAnswer(PEER, None, problem="something else answers there")


def test_a_replayed_answer_is_not_believed(served):
    port, calls = served
    first: list[str] = []

    def sign(request: SignedRequest, status: int, body: bytes) -> str:
        first.append(calls.auth.sign_answer(request, status, body))
        return first[0]

    calls.sign = sign
    assert ask(port, auth()).member == member(1)
    assert ask(port, auth()).problem == "something else answers there"


@pytest.mark.parametrize("seconds", [-60, 60])
def test_a_peer_with_another_clock_is_named_with_both_times(served, seconds):
    port, calls = served
    calls.auth = Authenticator("uid-1", PEER, [ME], lambda: time.time_ns() + seconds * NANOSECONDS)
    calls.sign = calls.auth.sign_answer
    answer = ask(port, auth())
    assert answer.other_clock
    assert answer.problem.startswith("its clock says 20")
    assert " and this pod's 20" in answer.problem


def test_without_a_uid_a_peer_elsewhere_says_what_to_set(served):
    port, calls = served
    calls.auth = auth(clock=lambda: 0)
    calls.sign = Authenticator("uid-2", PEER, []).sign_answer
    assert "set one secret of the job in all its pods" in ask(port, auth("")).problem
