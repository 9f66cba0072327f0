"""Two operators at once: by mistake, for a moment, and as an election intends it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dtj_operator.controller.leader_election import Terms
from tests.faults.fault_cluster import IN_PROCESS, Stage, World
from tests.faults.fault_plans import learn
from tests.faults.invariants import Watchman, end_state
from tests.faults.workloads import (
    CREATED_ROLES,
    POD_DELETED,
    RECREATED,
    SCALED,
    SUSPENDED,
    WORKER_FAILS,
    Workload,
    training_job,
)
from tests.support.apiserver import Answer
from tests.support.operator_process import QUIET

STORIES = (CREATED_ROLES, WORKER_FAILS, POD_DELETED, SUSPENDED, SCALED, RECREATED)


@pytest.mark.parametrize("workload", STORIES, ids=lambda workload: workload.name)
async def test_two_operators_without_an_election_reach_the_same_end_state(stage: Stage, workload: Workload):
    reference = await learn(stage, workload)
    async with World(stage) as world:
        watchman = Watchman(world)
        for operator in (world.start_operator(), world.start_operator()):
            await operator.ready()
        world.apply(workload.job)
        await workload.drive(world)
        await world.until_settled_as(lambda: end_state(world) == reference.state, "the undisturbed end state")
        await world.pass_time(2)
        assert watchman.complaints == []
        assert end_state(world) == reference.state


async def test_only_the_leader_writes_and_another_takes_over_when_it_is_killed(stage: Stage):
    async with World(stage) as world:
        first = world.start_operator(replace(QUIET, leader_elect=True))
        await first.ready()
        await world.until(lambda: _has_the_lease(world), "a leader")
        second = world.start_operator(replace(QUIET, leader_elect=True))
        await second.ready()
        world.apply(WORKER_FAILS.job)
        await world.until(lambda: world.holds("Running"), "a running job")
        assert {request.token for request in world.writes()} == {first.token}
        first.kill()
        world.delete_pod("train-worker-1")
        await world.until(lambda: world.status.get("attempt") == 1 and world.holds("Running"), "a recovered job")
        assert {request.token for request in world.writes()} == {first.token, second.token}


async def test_a_leader_that_ends_in_peace_hands_over_at_once(stage: Stage):
    async with World(stage) as world:
        first = world.start_operator(replace(QUIET, leader_elect=True))
        await first.ready()
        await world.until(lambda: _has_the_lease(world), "a leader")
        second = world.start_operator(replace(QUIET, leader_elect=True))
        await second.ready()
        first.terminate()
        await first.ended()
        assert first.error is None
        began = world.clock.now()
        world.apply(WORKER_FAILS.job)
        await world.until(lambda: world.holds("Running"), "a running job")
        assert (world.clock.now() - began).total_seconds() < 10, "the lease of 15 s was waited out"


@pytest.mark.faults
async def test_what_a_leader_had_waiting_when_its_lease_ran_out_is_not_written():
    async with World(IN_PROCESS) as world:
        # After what its start takes, a request every two seconds: creations wait, eight of them at a time.
        leader = world.start_operator(replace(QUIET, leader_elect=True, kube_api_qps=0.5, kube_api_burst=50))
        await leader.ready()
        await world.until(lambda: _has_the_lease(world), "a leader")
        world.apply(training_job(worker=60))
        await world.until(lambda: bool(world.pods()), "the first pods")
        await world.pass_time(1)
        world.server.faults.add(lambda request: request.resource == "leases", Answer(503), times=None)
        await world.pass_time(Terms().deadline)
        written = len(world.writes())
        assert len(world.pods()) < 60
        await world.pass_time(6)
        assert len(world.writes()) == written


def _has_the_lease(world: World) -> bool:
    """Whether an operator has written its name into it."""
    return any(one.resource == "leases" and one.write and one.changed for one in world.server.log.requests)
