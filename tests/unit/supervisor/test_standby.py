"""When there is room for a standby."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from dtj_trainer.cluster.task_mode import read_place
from dtj_trainer.ipc.connection import Connection
from dtj_trainer.ipc.messages import StartOrder
from dtj_trainer.supervisor.http.metrics import resident_bytes
from dtj_trainer.supervisor.membership import Rendezvous, Stage
from dtj_trainer.supervisor.process_pool import Nursery
from dtj_trainer.supervisor.standby import AFTER_SECONDS, AGAIN_SECONDS, Standby
from dtj_trainer.supervisor.training_process import Child

ORDER = StartOrder(serves=False, in_cluster=True, has_peers=True, uses_dtj=True)


class Ready(Nursery):
    """Its zygote has imported all; what it is asked for waits."""

    def __init__(self) -> None:
        super().__init__({}, preload=False)
        self.loaded = True

    def bear(self, _number: int, _order: StartOrder, end: socket.socket) -> None:
        end.close()


class Memory:
    """A cgroup whose free part is told in multiples of what this process uses."""

    free, together = 10.0, False

    def oom_kills(self) -> int:
        return 0

    def free_bytes(self) -> int:
        return int(self.free * (resident_bytes(os.getpid()) or 0))

    def falls_together(self) -> bool:
        return self.together


class Pod:
    """The test's own process is the one that trains."""

    def __init__(self, memory: Any) -> None:
        place = read_place({}, 9401)
        self.memory = memory
        self.standby = Standby(Ready(), lambda: place.config, self.memory)
        self.trains = Child(1, Connection(socket.socket()), 0, pid=os.getpid(), released_at=0.0, prepared=True)
        self._rendezvous = Rendezvous(place.identity(), ())
        self._rendezvous.stand(Stage.RUNNING)

    def tend(self, now: float) -> bool:
        return self.standby.tend(now, self.trains, self._rendezvous, 2, ORDER)

    def close(self) -> None:
        self.trains.connection.close()
        if self.standby.process is not None:
            self.standby.process.connection.close()


@pytest.fixture
def pod() -> Iterator[Pod]:
    pod = Pod(Memory())
    pod.tend(0.0)
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
    assert pod.tend(AFTER_SECONDS) is made


@pytest.mark.parametrize(("together", "enough", "short"), [(False, 0.2, 0.1), (True, 0.6, 0.4)])
def test_it_goes_when_memory_gets_short_and_does_not_come_again_at_once(pod: Pod, stands_by, together, enough, short):
    pod.tend(AFTER_SECONDS)
    pod.standby.born(2, stands_by.pid)
    pod.memory.together, pod.memory.free = together, enough
    pod.tend(2.0)
    assert stands_by.poll() is None
    pod.memory.free = short
    pod.tend(3.0)
    assert stands_by.wait(5) == -signal.SIGKILL
    pod.standby.died(stands_by.pid, 3.1)
    pod.memory.free = 10.0
    assert not pod.tend(3.0 + AGAIN_SECONDS - 0.1)
    assert pod.tend(3.0 + AGAIN_SECONDS)


def test_it_stays_where_the_process_that_trains_has_just_died(pod: Pod, stands_by):
    pod.tend(AFTER_SECONDS)
    pod.standby.born(2, stands_by.pid)
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    pod.trains.pid = gone.pid
    pod.tend(2.0)
    assert stands_by.poll() is None
