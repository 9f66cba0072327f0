"""An API server that says no, or nothing, for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.fault_cluster import Stage, World
from tests.faults.invariants import Watchman
from tests.faults.workloads import CREATED_WORKERS, training_job
from tests.support.apiserver import Answer, Cut, Hang

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.apiserver.faults import Outcome
    from tests.support.apiserver.log import Request


def _condition(world: World, name: str) -> dict[str, str]:
    return next((entry for entry in world.status.get("conditions", []) if entry["type"] == name), {})


def _is(verb: str) -> Callable[[Request], bool]:
    return lambda request: request.verb == verb


async def test_a_quota_that_is_used_up_is_told_and_heals(stage: Stage):
    async with World(stage) as world:
        watchman = Watchman(world)
        world.server.limit_pods(2)
        await world.start_operator().ready()
        world.apply(CREATED_WORKERS.job)
        await world.until(lambda: _condition(world, "Running").get("reason") == "QuotaExceeded", "the quota to be told")
        assert "exceeded quota" in _condition(world, "Running")["message"]
        refused = len(world.writes())
        await world.pass_time(10)
        assert len(world.writes()) - refused <= 12, "retries in 10 s"
        world.server.lift_limits()
        await world.until(lambda: world.holds("Running"), "a running job")
        assert watchman.complaints == []


async def test_a_name_that_is_taken_by_a_foreign_pod_is_told_and_left_alone(stage: Stage):
    async with World(stage) as world:
        spec = {"containers": [{"name": "main", "image": "other:1"}]}
        world.server.create("pods", {"metadata": {"name": "train-worker-1"}, "spec": spec})
        await world.until(lambda: len(world.pods()) == 1, "a pod of somebody else")
        (foreign,) = world.pods()
        await world.start_operator().ready()
        world.apply(training_job(worker=2))
        await world.until(lambda: _condition(world, "Running").get("reason") == "NameTaken", "the name to be told")
        (found,) = [pod for pod in world.pods() if pod["metadata"]["name"] == "train-worker-1"]
        assert found["metadata"]["uid"] == foreign["metadata"]["uid"]
        world.delete_pod("train-worker-1", grace_seconds=0)
        await world.until(lambda: world.holds("Running"), "a running job")


@pytest.mark.parametrize(
    "trouble",
    [Answer(500), Answer(503, "ServiceUnavailable"), Answer(429, "TooManyRequests"), Cut(), Cut(after_commit=True)],
    ids=["500", "503", "429", "cut before the commit", "cut after the commit"],
)
async def test_three_requests_of_each_verb_that_go_wrong_delay_and_change_nothing(stage: Stage, trouble: Outcome):
    async with World(stage) as world:
        watchman = Watchman(world)
        await world.start_operator().ready()
        for verb in ("get", "create", "patch", "delete", "list", "watch"):
            world.server.faults.add(_is(verb), trouble, times=3)
        world.apply(training_job(worker=3))
        await world.until(lambda: world.holds("Running"), "a running job")
        world.delete_job()
        await world.until(lambda: not world.pods(), "an empty namespace")
        assert watchman.complaints == []
        assert [operator.error for operator in world.operators] == [None]


async def test_a_write_that_is_never_answered_is_given_up_and_settled(stage: Stage):
    async with World(stage) as world:
        watchman = Watchman(world)
        await world.start_operator().ready()
        for after_commit in (False, True):
            world.server.faults.add(
                lambda request: request.verb == "create" and request.resource == "pods", Hang(after_commit=after_commit)
            )
        world.apply(training_job(worker=3))
        await world.until(lambda: world.holds("Running"), "a running job")
        assert watchman.complaints == []
