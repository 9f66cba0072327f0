"""The supervisor's loop: what it knows when it acts."""

import json
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from dtj_trainer.cluster.task_mode import read_place
from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.ipc.connection import Connection, connection_pair
from dtj_trainer.ipc.messages import CheckpointSaved, CheckpointStarted, Hello, Preempt, StartOrder, encode
from dtj_trainer.supervisor.http.peer_client import Answer
from dtj_trainer.supervisor.membership import Refusal, Stage
from dtj_trainer.supervisor.process_pool import Nursery
from dtj_trainer.supervisor.settings import Settings
from dtj_trainer.supervisor.supervisor import Supervision
from dtj_trainer.supervisor.training_process import Child


class Interrupted(Nursery):
    """Things happen while the supervisor looks after its children."""

    def __init__(self) -> None:
        super().__init__({}, preload=False)
        self.meanwhile = lambda: None

    def reap(self) -> None:
        self.meanwhile()


class Expecting(Nursery):
    """Keeps the end of the link that a child would have."""

    def __init__(self) -> None:
        super().__init__({}, preload=False)
        self.end: socket.socket | None = None

    def bear(self, _number: int, _order: StartOrder, end: socket.socket) -> None:
        self.end = end


@pytest.fixture
def trains() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_save_that_began_before_a_second_sigterm_is_waited_for_and_so_is_what_its_process_says_then(trains):
    home = Interrupted()
    supervision = Supervision(Settings(), read_place({}, 9401), None, home)
    ours, end = connection_pair()
    theirs = Connection(end)
    supervision._pod.child = Child(1, ours, 0, pid=trains.pid, released_at=time.monotonic())
    supervision._rendezvous.stand(Stage.RUNNING)
    with closing(ours), end, supervision._wake, supervision._woken, supervision._selector:
        theirs.send(Hello())
        supervision._signalled(signal.SIGTERM, None)
        supervision._turn(time.monotonic())

        def save() -> None:
            theirs.send(CheckpointStarted(7))
            supervision._signalled(signal.SIGTERM, None)

        home.meanwhile = save
        supervision._turn(time.monotonic())
        home.meanwhile = lambda: None
        supervision._turn(time.monotonic())
        theirs.send(CheckpointSaved(7, 1.0))
        supervision._turn(time.monotonic())
        assert theirs.receive() == Preempt()
    with pytest.raises(subprocess.TimeoutExpired):
        trains.wait(0.2)


class Waiting(Supervision):
    """Worker 1 of two, whose child waits to be let go."""

    def __init__(self) -> None:
        config = {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 1}}
        place = read_place({"TF_CONFIG": json.dumps(config), "DTJ_UID": "ours"}, 9401)
        super().__init__(Settings(standby="off"), place, None, Interrupted())
        ours, self.theirs = connection_pair()
        self._pod.child = Child(1, ours, 0)
        self._rendezvous.follow()
        self._rendezvous.park(standby=False)


def test_nobody_is_let_go_into_a_cluster_where_another_job_answers_to_the_name_of_a_peer():
    """The leader's pod is new: it calls, but name servers still say where the old one was, which is another job's."""
    supervision = Waiting()
    me, leader = supervision._rendezvous.me, Task("worker", 0)
    new = replace(me, index=0, incarnation="new")
    ours = closing(supervision._pod.children()[0].connection)
    sockets = ours, supervision.theirs, supervision._wake, supervision._woken
    with ExitStack() as stack:
        for opened in (*sockets, supervision._selector):
            stack.enter_context(opened)
        assert supervision.facts.meet(new, "10.0.0.9") is None
        supervision._answered(Answer(leader, None, refusal=Refusal.OTHER_JOB))
        supervision._turn(time.monotonic())
        assert supervision._pod.child is not None
        assert not supervision._pod.child.released


def test_the_link_of_a_process_that_follows_is_watched_though_a_fork_of_the_program_still_holds_the_one_before():
    home = Expecting()
    supervision = Supervision(Settings(), read_place({}, 9401), None, home)
    ours, theirs = connection_pair()
    first = supervision._pod.child = Child(1, ours, 0, released_at=time.monotonic() - 5)
    supervision._rendezvous.stand(Stage.RUNNING)
    with closing(ours), theirs, supervision._wake, supervision._woken, supervision._selector:
        supervision._watch_sockets()
        supervision._child_died(first, signal.SIGKILL, time.monotonic())
        second = supervision._pod.child
        assert second is not None
        assert home.end is not None
        with closing(second.connection), home.end:
            supervision._watch_sockets()
            home.end.send(encode(Hello()))
            assert [key.fileobj for key, _ in supervision._selector.select(1)] == [second.connection]
