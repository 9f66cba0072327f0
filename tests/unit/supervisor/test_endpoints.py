"""What the HTTP server answers from the last published status."""

from __future__ import annotations

import math
import socket
import time
from dataclasses import replace

import pytest

from dtj_trainer.cluster.tf_config import EVALUATOR, Task
from dtj_trainer.ipc.messages import Profile, SaveNow
from dtj_trainer.supervisor.http import endpoints
from dtj_trainer.supervisor.http.auth import NANOSECONDS, Authenticator, SignedRequest
from dtj_trainer.supervisor.http.endpoints import HEALTHY_SECONDS, Answer, Endpoints
from dtj_trainer.supervisor.http.metrics import Metrics
from dtj_trainer.supervisor.http.status import SupervisorStatus
from dtj_trainer.supervisor.inbox import Request
from dtj_trainer.supervisor.membership import Member, Refusal
from tests.unit.supervisor.statuses import a_status

UID = "secret"
ME = Task("worker", 0)
PEER = Member("", 1, Task("worker", 1), "b", "")


class Pod(Endpoints):
    """Endpoints with the status of this test, and what they have asked of the supervisor."""

    def __init__(self, status: SupervisorStatus) -> None:
        self.now = status
        self.asked: list[Request] = []
        self.callers: list[Task] = []
        others = {PEER.task: ("10.0.0.9", 9401)}
        auth = Authenticator(UID, ME, [*others, EVALUATOR])
        super().__init__(
            lambda: self.now, Metrics(), self.asked.append, lambda task, _: self.callers.append(task), others, auth
        )


@pytest.fixture
def pod() -> Pod:
    return Pod(a_status())


def test_it_is_ready_until_the_moment_that_the_status_gives(pod: Pod):
    for until, ready in ((-math.inf, False), (time.monotonic() - 1, False), (time.monotonic() + 60, True)):
        pod.now = replace(pod.now, ready_until=until)
        assert pod.ready() is ready


def test_a_program_that_reports_no_steps_is_ready_when_its_port_is_open(pod: Pod):
    with socket.create_server(("127.0.0.1", 0)) as server:
        pod.now = replace(pod.now, probe=server.getsockname())
        assert pod.ready()
    assert not pod.ready()


def test_it_is_healthy_while_the_status_is_young(pod: Pod):
    for age, healthy in ((0.0, True), (HEALTHY_SECONDS + 1, False)):
        pod.now = replace(pod.now, published_at=time.monotonic() - age)
        assert pod.healthy() is healthy


def peers_request(peer: Member, *, sender: Task = PEER.task) -> SignedRequest:
    """What `sender` says of `peer`."""
    body = peer.to_json()
    header = Authenticator(UID, sender, ()).sign("POST", "/peer", "worker-0", body)
    return SignedRequest("POST", "/peer", body, header, local=False)


def command(path: str, uid: str = UID) -> SignedRequest:
    return SignedRequest("POST", path, b"", Authenticator(uid, ME, ()).sign_command("POST", path), local=True)


def passed_on(path: str) -> SignedRequest:
    header = Authenticator(UID, PEER.task, ()).sign("POST", path, "worker-0")
    return SignedRequest("POST", path, b"", header, local=False)


def test_a_peer_is_handed_on_and_one_that_is_not_believed_is_not(pod: Pod):
    assert pod.meet(peers_request(PEER), "10.0.0.9").status == 200
    assert pod.meet(replace(peers_request(PEER), header=""), "10.0.0.9") == Answer(403)
    other = pod.meet(peers_request(replace(PEER, job="other")), "10.0.0.9")
    assert (other.status, other.body.decode()) == (409, Refusal.OTHER_JOB)
    pod.now = replace(pod.now, known={PEER.task: replace(PEER, attempt=2)})
    older = pod.meet(peers_request(PEER), "10.0.0.9")
    assert (older.status, older.body.decode()) == (409, Refusal.OLDER_ATTEMPT)
    assert pod.asked == [PEER]
    assert pod.callers == [PEER.task]


def test_a_peer_speaks_for_itself_alone_and_only_members_of_the_cluster_do(pod: Pod):
    evaluator = replace(PEER, task=EVALUATOR)
    assert pod.meet(peers_request(replace(PEER, task=Task("worker", 2))), "10.0.0.9") == Answer(403)
    assert pod.meet(peers_request(evaluator, sender=EVALUATOR), "10.0.0.9") == Answer(403)
    assert pod.meet(replace(command("/peer"), body=PEER.to_json()), "10.0.0.9") == Answer(403)
    nonsense = peers_request(PEER)
    header = Authenticator(UID, PEER.task, ()).sign("POST", "/peer", "worker-0", b"[]")
    assert pod.meet(replace(nonsense, body=b"[]", header=header), "10.0.0.9").status == 400
    assert pod.asked == []


def test_a_request_from_another_time_changes_nothing_and_its_answer_is_signed(pod: Pod):
    hour_ago = Authenticator(UID, PEER.task, (), lambda: time.time_ns() - 3600 * NANOSECONDS)
    body = PEER.to_json()
    late = SignedRequest("POST", "/peer", body, hour_ago.sign("POST", "/peer", "worker-0", body), local=False)
    answer = pod.meet(late, "10.0.0.9")
    assert answer.status == 403
    assert hour_ago.answer_time(late.header, "/peer", answer.signature, 403, b"") is not None
    assert pod.asked == []


def test_a_checkpoint_is_asked_for_by_who_knows_the_job_and_not_at_once_again(pod: Pod):
    assert pod.checkpoint(command("/checkpoint", "another")) == Answer(403)
    assert [pod.checkpoint(passed_on("/checkpoint")).status for _ in range(2)] == [202, 429]
    assert pod.profile(command("/profile", "another"), 3) == Answer(403)
    assert pod.profile(command("/profile"), 3) == Answer(202)
    assert pod.asked == [SaveNow(), Profile(3)]


def test_a_checkpoint_that_a_command_asks_for_is_passed_on_and_one_that_was_passed_on_is_not(pod: Pod, monkeypatch):
    told: list[str] = []
    monkeypatch.setattr(endpoints, "pass_on", lambda _auth, _others, path: told.append(path))
    assert pod.checkpoint(passed_on("/checkpoint")) == Answer(202)
    assert told == []
    pod = Pod(a_status())
    assert pod.checkpoint(command("/checkpoint")) == Answer(202)
    assert told == ["/checkpoint"]
