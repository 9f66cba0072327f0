"""The supervisor's loop: what it knows when it acts."""

import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from dtj_trainer import link
from dtj_trainer.supervisor.life import Child
from dtj_trainer.supervisor.nursery import Nursery
from dtj_trainer.supervisor.place import read_place
from dtj_trainer.supervisor.rendezvous import Stage
from dtj_trainer.supervisor.settings import Settings
from dtj_trainer.supervisor.supervision import Supervision


class Interrupted(Nursery):
    """Things happen while the supervisor looks after its children."""

    def __init__(self) -> None:
        super().__init__({}, preload=False)
        self.meanwhile = lambda: None

    def reap(self) -> None:
        self.meanwhile()


@pytest.fixture
def trains() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_save_that_began_before_a_second_sigterm_is_known_when_that_is_heeded(trains):
    home = Interrupted()
    supervision = Supervision(Settings(), read_place({}, 9401), None, home)
    ours, theirs = link.pair()
    ours.setblocking(False)
    supervision._pod.child = Child(1, ours, 0, pid=trains.pid, released_at=time.monotonic())
    supervision._rendezvous.stand(Stage.RUNNING)
    with ours, theirs, supervision._wake, supervision._woken, supervision._selector:
        theirs.send(link.encode({"type": "hello", "managed": True}))
        supervision._signalled(signal.SIGTERM, None)
        supervision._turn(time.monotonic())

        def save() -> None:
            theirs.send(link.encode({"type": "saving", "step": 7}))
            supervision._signalled(signal.SIGTERM, None)

        home.meanwhile = save
        supervision._turn(time.monotonic())
        home.meanwhile = lambda: None
        supervision._turn(time.monotonic())
        assert "preempt" in link.decode(theirs.recv(link.PACKET_BYTES)).values()
    with pytest.raises(subprocess.TimeoutExpired):
        trains.wait(0.2)
