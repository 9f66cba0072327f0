"""Reading past batches that are trained already."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from dtj_trainer.errors import Preempted
from dtj_trainer.ipc.messages import PhaseChanged
from dtj_trainer.supervisor.progress import Progress
from dtj_trainer.training.steps import read_past as module
from dtj_trainer.training.steps.read_past import read_past


class World:
    """A process whose clock stands still but while it reads, and whose supervisor hears what it reports."""

    def __init__(self, seconds_per_batch: float) -> None:
        self.now = 0.0
        self.read: list[int] = []
        self.stalls = 0
        self.commands = SimpleNamespace(preempted=threading.Event())
        self.reporter = SimpleNamespace(phase=self.told)
        self.is_chief = True
        self._seconds_per_batch = seconds_per_batch
        self._progress = Progress()
        self._progress.standby_took_over()

    def told(self, phase: str) -> None:
        self.stalls += self._progress.stalled(self.now, limit=5.0, start=5.0)
        self._progress.apply(PhaseChanged(phase), self.now, 0.0)

    def reads(self, batches: int) -> None:
        self.read.append(batches)
        self.now += batches * self._seconds_per_batch

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> World:
    found = World(request.param)
    monkeypatch.setattr(module, "time", found)
    return found


@pytest.mark.parametrize("world", [2.0, 0.1, 1e-5], indirect=True)
def test_all_batches_are_read_and_none_of_it_is_a_stall(world: Any) -> None:
    read_past(world.reads, 3_000, world)
    assert sum(world.read) == 3_000
    assert world.stalls == 0


@pytest.mark.parametrize("world", [0.1], indirect=True)
def test_people_see_how_far_it_is(world: Any, capsys: pytest.CaptureFixture[str]) -> None:
    read_past(world.reads, 500, world)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert lines[-1].startswith("dtj: read past 500 of 500 batches that are trained already; ")


@pytest.mark.parametrize("world", [0.1], indirect=True)
def test_a_process_that_is_asked_to_leave_leaves(world: Any) -> None:
    world.commands.preempted.set()
    with pytest.raises(Preempted, match="asked to leave while reading past 500 batches"):
        read_past(world.reads, 500, world)
    assert world.read == []
