"""Changes that no operator saw happen: what counts is what is there afterwards."""

from __future__ import annotations

from tests.faults.fault_cluster import Stage, World
from tests.faults.invariants import Watchman
from tests.faults.workloads import training_job


async def _running(world: World) -> Watchman:
    watchman = Watchman(world)
    await world.start_operator().ready()
    world.apply(training_job(worker=2))
    await world.until(lambda: world.holds("Running"), "a running job")
    return watchman


def _kill_operators(world: World) -> None:
    for operator in world.operators:
        operator.kill()


async def test_a_pod_that_vanished_while_no_operator_looked_is_replaced_and_not_charged(stage: Stage):
    async with World(stage) as world:
        watchman = await _running(world)
        _kill_operators(world)
        world.delete_pod("train-worker-1", grace_seconds=0)
        await world.start_operator().ready()
        await world.until(lambda: world.status["attempt"] == 1 and world.holds("Running"), "a recovered job")
        assert world.status["restarts"] == {"total": 1, "charged": 0, "byCause": {"Deleted": 1}}
        assert watchman.complaints == []


async def test_a_failure_while_no_operator_looked_is_charged_once(stage: Stage):
    async with World(stage) as world:
        watchman = await _running(world)
        _kill_operators(world)
        assert world.kubelet.exit("train-worker-1", 1)
        await world.pass_time(30)
        await world.start_operator().ready()
        await world.until(lambda: world.status["attempt"] == 1 and world.holds("Running"), "a recovered job")
        assert world.status["restarts"] == {"total": 1, "charged": 1, "byCause": {"UserError": 1}}
        assert watchman.complaints == []


async def test_suspended_and_resumed_while_no_operator_looked_keeps_the_pods(stage: Stage):
    async with World(stage) as world:
        watchman = await _running(world)
        before = [pod["metadata"]["uid"] for pod in world.pods()]
        _kill_operators(world)
        world.change({"spec": {"suspend": True}})
        world.change({"spec": {"suspend": False}})
        await world.start_operator().ready()
        await world.until(lambda: world.holds("Running"), "a running job at the present generation")
        assert [pod["metadata"]["uid"] for pod in world.pods()] == before
        assert watchman.complaints == []


async def test_pod_deletions_whose_events_were_lost_are_found_by_the_next_list(stage: Stage):
    async with World(stage) as world:
        watchman = await _running(world)
        stop_losing = world.server.drop_events(lambda commit: commit.kind.plural == "pods")
        world.delete_pod("train-worker-1", grace_seconds=0)
        world.server.break_streams("pods")
        world.server.forget_history()
        stop_losing()
        await world.until(lambda: world.status["attempt"] == 1 and world.holds("Running"), "a recovered job")
        assert watchman.complaints == []


async def test_a_job_deleted_and_created_again_while_no_operator_looked_inherits_nothing(stage: Stage):
    async with World(stage) as world:
        watchman = await _running(world)
        assert world.kubelet.exit("train-worker-1", 1)
        await world.until(lambda: world.status["attempt"] == 1 and world.holds("Running"), "a recovered job")
        _kill_operators(world)
        world.delete_job()
        world.apply(training_job(worker=3))
        await world.start_operator().ready()
        await world.until(lambda: world.holds("Running"), "a running job")
        assert world.status["restarts"]["total"] == 0
        assert world.job is not None
        uid = world.job["metadata"]["uid"]
        assert {pod["metadata"]["labels"]["dtj.dev/job-uid"] for pod in world.pods()} == {uid}
        assert len(world.pods()) == 3
        assert watchman.complaints == []


async def test_a_job_deleted_while_no_operator_looked_leaves_nothing_and_nothing_is_made(stage: Stage):
    async with World(stage) as world:
        await _running(world)
        _kill_operators(world)
        world.delete_job()
        await world.until(lambda: not world.pods() and not world.server.list("services"), "an empty namespace")
        written = len(world.writes())
        await world.start_operator().ready()
        await world.pass_time(3)
        assert len(world.writes()) == written


async def test_an_operator_that_slept_an_hour_changes_nothing_that_is_well(stage: Stage):
    async with World(stage) as world:
        await _running(world)
        await world.pass_time(3)
        _kill_operators(world)
        written = len(world.writes())
        world.clock.skip(3600)
        await world.start_operator().ready()
        await world.pass_time(3)
        assert [request.target for request in world.writes()[written:]] == []
