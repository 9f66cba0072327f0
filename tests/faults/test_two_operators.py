"""Two operators at once: by mistake, for a moment, and with leader election."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dtj_operator.controller.leader_election import LeaderElectionConfig
from tests.faults.fault_cluster import IN_PROCESS, Backend, FaultCluster
from tests.faults.fault_plans import run_undisturbed
from tests.faults.invariant_monitor import InvariantMonitor
from tests.faults.invariants import end_state
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

SELECTED = (CREATED_ROLES, WORKER_FAILS, POD_DELETED, SUSPENDED, SCALED, RECREATED)


@pytest.mark.parametrize("workload", SELECTED, ids=lambda workload: workload.name)
async def test_two_operators_without_an_election_reach_the_same_end_state(backend: Backend, workload: Workload):
    reference = await run_undisturbed(backend, workload)
    async with FaultCluster(backend) as cluster:
        monitor = InvariantMonitor(cluster)
        for operator in (cluster.start_operator(), cluster.start_operator()):
            await operator.ready()
        cluster.apply(workload.job)
        await workload.drive(cluster)
        await cluster.until_settled_as(lambda: end_state(cluster) == reference.state, "the undisturbed end state")
        await cluster.pass_time(2)
        assert monitor.violations == []
        assert end_state(cluster) == reference.state


async def test_only_the_leader_writes_and_another_takes_over_when_it_is_killed(backend: Backend):
    async with FaultCluster(backend) as cluster:
        first = cluster.start_operator(replace(QUIET, leader_elect=True))
        await first.ready()
        await cluster.until(lambda: _has_the_lease(cluster), "a leader")
        second = cluster.start_operator(replace(QUIET, leader_elect=True))
        await second.ready()
        cluster.apply(WORKER_FAILS.job)
        await cluster.until(lambda: cluster.holds("Running"), "a running job")
        assert {request.token for request in cluster.writes()} == {first.token}
        first.kill()
        cluster.delete_pod("train-worker-1")
        await cluster.until(lambda: cluster.status.get("attempt") == 1 and cluster.holds("Running"), "a recovered job")
        assert {request.token for request in cluster.writes()} == {first.token, second.token}


async def test_a_leader_that_ends_in_peace_hands_over_at_once(backend: Backend):
    async with FaultCluster(backend) as cluster:
        first = cluster.start_operator(replace(QUIET, leader_elect=True))
        await first.ready()
        await cluster.until(lambda: _has_the_lease(cluster), "a leader")
        second = cluster.start_operator(replace(QUIET, leader_elect=True))
        await second.ready()
        first.terminate()
        await first.ended()
        assert first.error is None
        began = cluster.clock.now()
        cluster.apply(WORKER_FAILS.job)
        await cluster.until(lambda: cluster.holds("Running"), "a running job")
        assert (cluster.clock.now() - began).total_seconds() < 10, "the lease of 15 s was waited out"


@pytest.mark.faults
async def test_what_a_leader_had_waiting_when_its_lease_ran_out_is_not_written():
    async with FaultCluster(IN_PROCESS) as cluster:
        # After what its start takes, a request every two seconds: creations wait, eight of them at a time.
        leader = cluster.start_operator(replace(QUIET, leader_elect=True, kube_api_qps=0.5, kube_api_burst=50))
        await leader.ready()
        await cluster.until(lambda: _has_the_lease(cluster), "a leader")
        cluster.apply(training_job(worker=60))
        await cluster.until(lambda: bool(cluster.pods()), "the first pods")
        await cluster.pass_time(1)
        cluster.server.faults.add(lambda request: request.resource == "leases", Answer(503), times=None)
        await cluster.pass_time(LeaderElectionConfig().renew_deadline)
        written = len(cluster.writes())
        assert len(cluster.pods()) < 60
        await cluster.pass_time(6)
        assert len(cluster.writes()) == written


def _has_the_lease(cluster: FaultCluster) -> bool:
    """Tell whether an operator has acquired the lease."""
    return any(one.resource == "leases" and one.write and one.changed for one in cluster.server.log.requests)
