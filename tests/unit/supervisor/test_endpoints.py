"""What the HTTP server answers from the last published status."""

from __future__ import annotations

import math
import socket
import time
from dataclasses import replace

import pytest

from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.ipc.messages import Profile, SaveNow
from dtj_trainer.supervisor.http.endpoints import HEALTHY_SECONDS, Endpoints
from dtj_trainer.supervisor.http.metrics import Metrics
from dtj_trainer.supervisor.http.status import SupervisorStatus
from dtj_trainer.supervisor.inbox import Request
from dtj_trainer.supervisor.membership import Member, Refusal
from tests.unit.supervisor.statuses import a_status

PEER = Member("", 1, Task("worker", 1), "b", "")


class Pod(Endpoints):
    """Endpoints with the status of this test, and what they have asked of the supervisor."""

    def __init__(self, status: SupervisorStatus) -> None:
        self.now = status
        self.asked: list[Request] = []
        self.callers: list[Task] = []
        super().__init__(lambda: self.now, Metrics(), self.asked.append, lambda task, _: self.callers.append(task), {})


@pytest.fixture
def pod() -> Pod:
    return Pod(a_status())


def test_it_is_ready_until_the_moment_that_the_status_gives(pod: Pod):
    for until, ready in ((-math.inf, False), (time.monotonic() - 1, False), (time.monotonic() + 60, True)):
        pod.now = replace(pod.now, ready_until=until)
        assert pod.ready() is ready


def test_a_program_that_reports_no_steps_is_ready_when_its_port_is_open(pod: Pod):
    with socket.create_server(("127.0.0.1", 0)) as server:
        pod.now = replace(pod.now, probe_port=server.getsockname()[1])
        assert pod.ready()
    assert not pod.ready()


def test_it_is_healthy_while_the_status_is_young(pod: Pod):
    for age, healthy in ((0.0, True), (HEALTHY_SECONDS + 1, False)):
        pod.now = replace(pod.now, published_at=time.monotonic() - age)
        assert pod.healthy() is healthy


def test_a_peer_is_handed_on_and_one_that_is_not_believed_is_not(pod: Pod):
    assert pod.meet(PEER, "10.0.0.9") is None
    assert pod.meet(replace(PEER, job="other"), "10.0.0.9") is Refusal.OTHER_JOB
    pod.now = replace(pod.now, known={PEER.task: replace(PEER, attempt=2)})
    assert pod.meet(PEER, "10.0.0.9") is Refusal.OLDER_ATTEMPT
    assert pod.asked == [PEER]
    assert pod.callers == [PEER.task]


def test_a_checkpoint_is_asked_for_by_who_knows_the_job_and_not_at_once_again(pod: Pod):
    assert pod.checkpoint("another", passed_on=True) == 403
    assert [pod.checkpoint("", passed_on=True) for _ in range(2)] == [202, 429]
    assert pod.profile("another", 3) == 403
    assert pod.profile("", 3) == 202
    assert pod.asked == [SaveNow(), Profile(3)]
