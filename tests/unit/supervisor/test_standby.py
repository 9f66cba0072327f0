"""When there is room for a standby."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from dtj_trainer.cluster.cgroup import resident_bytes
from dtj_trainer.cluster.tf_config import Task, TfConfig
from dtj_trainer.ipc.connection import Connection
from dtj_trainer.ipc.messages import ProcessExit, StartOrder
from dtj_trainer.supervisor.membership import Member, Membership, MemberState
from dtj_trainer.supervisor.process_pool import ProcessPool
from dtj_trainer.supervisor.standby import AFTER_SECONDS, AGAIN_SECONDS, Standby
from dtj_trainer.supervisor.training_process import TrainingProcess

ORDER = StartOrder(serves=False, in_cluster=True, has_peers=True, uses_dtj=True)


class Ready(ProcessPool):
    """Its zygote has imported all; what it is asked for waits."""

    def __init__(self) -> None:
        super().__init__({}, preload=False)
        self.loaded = True

    def spawn(self, _order: StartOrder, end: socket.socket) -> int:
        end.close()
        return 2


class Memory:
    """A cgroup whose free part is told in multiples of what this process uses."""

    free, together = 10.0, False

    def oom_kills(self) -> int:
        return 0

    def free_bytes(self) -> int:
        return int(self.free * (resident_bytes(os.getpid()) or 0))

    def kills_all_together(self) -> bool:
        return self.together


class Pod:
    """The test's own process is the one that trains."""

    def __init__(self, memory: Any) -> None:
        self.memory = memory
        task = Task("worker", 0)
        self._membership = Membership(Member("", 0, task, "a", ""), ())
        self._membership.set_state(MemberState.RUNNING)
        self.standby = Standby(Ready(), self._membership, lambda: TfConfig({}, task), self.memory)
        self.trains = TrainingProcess(1, Connection(socket.socket()), 0, pid=os.getpid(), started_at=0.0, prepared=True)

    def poll(self, now: float) -> bool:
        """Whether there is one then."""
        self.standby.poll(now, self.trains, ORDER)
        return self.standby.process is not None

    def close(self) -> None:
        self.trains.connection.close()
        if self.standby.process is not None:
            self.standby.process.connection.close()


@pytest.fixture
def pod() -> Iterator[Pod]:
    pod = Pod(Memory())
    pod.poll(0.0)
    yield pod
    pod.close()


@pytest.fixture
def stands_by() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("together", "free", "made"), [(False, 1.2, False), (False, 1.5, True), (True, 1.5, False), (True, 2.5, True)]
)
def test_it_is_made_where_there_is_room_and_more_where_all_would_fall_together(pod: Pod, together, free, made):
    pod.memory.together, pod.memory.free = together, free
    assert pod.poll(AFTER_SECONDS) is made


@pytest.mark.parametrize(("together", "enough", "short"), [(False, 0.2, 0.1), (True, 0.6, 0.4)])
def test_it_goes_when_memory_gets_short_and_does_not_come_again_at_once(pod: Pod, stands_by, together, enough, short):
    pod.poll(AFTER_SECONDS)
    pod.standby.on_started(2, stands_by.pid)
    pod.memory.together, pod.memory.free = together, enough
    pod.poll(2.0)
    assert stands_by.poll() is None
    pod.memory.free = short
    pod.poll(3.0)
    assert stands_by.wait(5) == -signal.SIGKILL
    pod.standby.on_exited(stands_by.pid, 3.1)
    pod.memory.free = 10.0
    assert not pod.poll(3.0 + AGAIN_SECONDS - 0.1)
    assert pod.poll(3.0 + AGAIN_SECONDS)


def test_it_stays_where_the_process_that_trains_has_just_died(pod: Pod, stands_by):
    pod.poll(AFTER_SECONDS)
    pod.standby.on_started(2, stands_by.pid)
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    pod.trains.pid = gone.pid
    pod.poll(2.0)
    assert stands_by.poll() is None


@pytest.mark.parametrize(
    ("exit_class", "says"),
    [("user-error", "dtj: the standby ended (as it said); the training goes on without one\n"), ("peer-lost", "")],
)
def test_a_standby_that_ended_by_itself_says_why_and_one_whose_peers_ended_nothing(pod: Pod, capfd, exit_class, says):
    """At the end of a job all standbys end, one after the other."""
    pod.poll(AFTER_SECONDS)
    process = pod.standby.process
    assert process is not None
    pod.standby.on_started(2, 1 << 22)
    process.exit = ProcessExit(exit_class, 1, "as it said")
    pod.standby.on_exited(1 << 22, 3.0)
    assert capfd.readouterr().err == says
