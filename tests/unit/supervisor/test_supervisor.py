"""The supervisor's loop: what it knows when it acts."""

import json
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from dtj_trainer.cluster import environment
from dtj_trainer.cluster.task_mode import TaskMode
from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.ipc.connection import Connection, connection_pair
from dtj_trainer.ipc.messages import CheckpointSaved, CheckpointStarted, Hello, Preempt, StartOrder, encode
from dtj_trainer.supervisor.http.auth import Authenticator, SignedRequest
from dtj_trainer.supervisor.http.peer_client import PeerAnswer
from dtj_trainer.supervisor.membership import MemberState, Refusal
from dtj_trainer.supervisor.process_pool import ProcessPool
from dtj_trainer.supervisor.settings import Settings
from dtj_trainer.supervisor.supervisor import Supervisor
from dtj_trainer.supervisor.training_process import TrainingProcess


class Interrupted(ProcessPool):
    """Things happen while the supervisor looks after its processes."""

    def __init__(self) -> None:
        super().__init__({}, preload=False)
        self.meanwhile = lambda: None

    def reap(self) -> None:
        self.meanwhile()


class Expecting(ProcessPool):
    """Keeps the end of the connection that a process would have."""

    def __init__(self) -> None:
        super().__init__({}, preload=False)
        self.end: socket.socket | None = None

    def spawn(self, _order: StartOrder, end: socket.socket) -> int:
        self.end = end
        return 2


@pytest.fixture
def trains() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_save_that_began_before_a_second_sigterm_is_waited_for_and_so_is_what_its_process_says_then(trains):
    pool = Interrupted()
    supervisor = Supervisor(Settings(), environment.read({}), TaskMode.SINGLE, None, pool)
    ours, end = connection_pair()
    theirs = Connection(end)
    supervisor._cluster.process = TrainingProcess(1, ours, 0, pid=trains.pid, started_at=time.monotonic())
    supervisor._membership.set_state(MemberState.RUNNING)
    with closing(ours), end, closing(supervisor.inbox):
        theirs.send(Hello())
        supervisor.inbox.on_signal(signal.SIGTERM, None)
        supervisor.run_once(time.monotonic())

        def save() -> None:
            theirs.send(CheckpointStarted(7))
            supervisor.inbox.on_signal(signal.SIGTERM, None)

        pool.meanwhile = save
        supervisor.run_once(time.monotonic())
        pool.meanwhile = lambda: None
        supervisor.run_once(time.monotonic())
        theirs.send(CheckpointSaved(7, 1.0))
        supervisor.run_once(time.monotonic())
        assert theirs.receive() == Preempt()
    with pytest.raises(subprocess.TimeoutExpired):
        trains.wait(0.2)


def watch(supervisor: Supervisor) -> None:
    supervisor.inbox.watch({process.connection for process in supervisor._processes()})


class Waiting(Supervisor):
    """Worker 1 of two, whose process waits to be started."""

    def __init__(self) -> None:
        config = {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 1}}
        told = environment.read({"TF_CONFIG": json.dumps(config), "DTJ_UID": "ours"})
        super().__init__(Settings(standby="off"), told, TaskMode.COLLECTIVE, None, Interrupted())
        ours, self.theirs = connection_pair()
        self._cluster.process = TrainingProcess(1, ours, 0)
        self._membership.adopt_generation()
        self._membership.set_ready(standby=False)


def test_nobody_is_started_in_a_cluster_where_another_job_answers_to_the_name_of_a_peer():
    """The leader's pod is new: it calls, but name servers still say where the old one was, which is another job's."""
    supervisor = Waiting()
    me, leader = supervisor._membership.me, Task("worker", 0)
    new = replace(me, task=leader, incarnation="new")
    process = supervisor._cluster.process
    assert process is not None
    with closing(process.connection), supervisor.theirs, closing(supervisor.inbox):
        header = Authenticator("ours", leader, ()).sign("POST", "/peer", "worker-1", new.to_json())
        told = SignedRequest("POST", "/peer", new.to_json(), header, local=False)
        assert supervisor.endpoints.meet(told, "10.0.0.9").status == 200
        supervisor.inbox.put(PeerAnswer(leader, None, refusal=Refusal.OTHER_JOB))
        supervisor.run_once(time.monotonic())
        assert not process.started


def test_the_connection_of_a_process_that_follows_is_watched_though_a_fork_of_the_program_still_holds_the_one_before():
    pool = Expecting()
    supervisor = Supervisor(Settings(), environment.read({}), TaskMode.SINGLE, None, pool)
    ours, theirs = connection_pair()
    first = supervisor._cluster.process = TrainingProcess(1, ours, 0, started_at=time.monotonic() - 5)
    supervisor._membership.set_state(MemberState.RUNNING)
    with closing(ours), theirs, closing(supervisor.inbox):
        watch(supervisor)
        supervisor._on_exit(first, signal.SIGKILL, time.monotonic())
        second = supervisor._cluster.process
        assert second is not None
        assert pool.end is not None
        with closing(second.connection), pool.end:
            watch(supervisor)
            pool.end.send(encode(Hello()))
            assert [key.fileobj for key, _ in supervisor.inbox._selector.select(1)] == [second.connection]
