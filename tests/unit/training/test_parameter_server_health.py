"""When a ParameterServer job cannot go on, and who is to blame. Time and answers are given."""

from types import SimpleNamespace

import pytest

from dtj_trainer.cluster.environment import CheckpointSettings, Environment
from dtj_trainer.cluster.tf_config import Task, TfConfig
from dtj_trainer.errors import PeerLost
from dtj_trainer.training.steps import parameter_server_health
from dtj_trainer.training.steps.parameter_server_health import ServerHealth

CONFIG = TfConfig({"chief": ("c:1",), "worker": ("a:1", "b:1"), "ps": ("p:1",)}, Task("chief", 0))


@pytest.fixture
def world(monkeypatch):
    world = SimpleNamespace(now=0.0, dead=set())
    monkeypatch.setattr("dtj_trainer.training.steps.parameter_server_health.time.monotonic", lambda: world.now)
    monkeypatch.setattr(parameter_server_health, "serves", lambda host, _port: host not in world.dead)
    start = SimpleNamespace(start=lambda: None)

    def thread(*, target, args, daemon):
        assert daemon
        target(*args)
        return start

    monkeypatch.setattr("dtj_trainer.training.steps.parameter_server_health.threading.Thread", thread)
    settings = Environment(tf_config=CONFIG, checkpoint=CheckpointSettings("/somewhere"))
    world.watch = ServerHealth(SimpleNamespace(environment=settings))  # type: ignore[arg-type]
    return world


def train(world: SimpleNamespace, seconds: int, workers: set[int], steps: int = 10) -> None:
    for _ in range(seconds):
        world.now += 1.0
        world.watch.used(workers, steps, 1.0)


def test_a_worker_that_is_back_and_not_used_makes_the_chief_start_over(world):
    train(world, 5, {0, 1})
    world.dead = {"b"}
    train(world, 60, {0})
    world.dead = set()
    train(world, 20, {0})
    with pytest.raises(PeerLost, match=r"worker 1 \(b:1\) is back and not used"):
        train(world, 10, {0})


def test_a_worker_that_is_used_again_is_let_be(world):
    train(world, 40, {0})
    train(world, 100, {0, 1})


def test_calls_too_short_for_all_workers_prove_nothing(world):
    train(world, 200, {0}, steps=1)


def test_nothing_for_ten_steps_and_half_a_minute_is_a_stall_and_the_silent_are_named(world):
    train(world, 5, {0, 1})
    world.dead = {"b", "p"}
    world.watch.waiting(31.0, 10)
    with pytest.raises(PeerLost, match=r"worker 1 \(b:1\) and ps 0 \(p:1\) do not answer"):
        world.watch.waiting(32.5, 10)


def test_the_first_steps_may_take_long(world):
    world.watch.waiting(599.0, 2)
    with pytest.raises(PeerLost, match="though every worker and ps answers"):
        world.watch.waiting(601.0, 2)
