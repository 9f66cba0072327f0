"""Changes that happened while no operator ran: the operator acts on what it finds afterwards."""

from __future__ import annotations

from tests.faults.fault_cluster import Backend, FaultCluster
from tests.faults.invariant_monitor import InvariantMonitor
from tests.faults.workloads import training_job


async def _running(cluster: FaultCluster) -> InvariantMonitor:
    monitor = InvariantMonitor(cluster)
    await cluster.start_operator().ready()
    cluster.apply(training_job(worker=2))
    await cluster.until(lambda: cluster.holds("Running"), "a running job")
    return monitor


def _kill_operators(cluster: FaultCluster) -> None:
    for operator in cluster.operators:
        operator.kill()


async def test_a_pod_that_vanished_while_no_operator_looked_is_replaced_and_not_charged(backend: Backend):
    async with FaultCluster(backend) as cluster:
        monitor = await _running(cluster)
        _kill_operators(cluster)
        cluster.delete_pod("train-worker-1", grace_seconds=0)
        await cluster.start_operator().ready()
        await cluster.until(lambda: cluster.status["attempt"] == 1 and cluster.holds("Running"), "a recovered job")
        assert cluster.status["restarts"] == {"total": 1, "charged": 0, "byCause": {"Deleted": 1}, "inPlace": 0}
        assert monitor.violations == []


async def test_a_failure_while_no_operator_looked_is_charged_once(backend: Backend):
    async with FaultCluster(backend) as cluster:
        monitor = await _running(cluster)
        _kill_operators(cluster)
        assert cluster.kubelet.exit("train-worker-1", 1)
        await cluster.pass_time(30)
        await cluster.start_operator().ready()
        await cluster.until(lambda: cluster.status["attempt"] == 1 and cluster.holds("Running"), "a recovered job")
        assert cluster.status["restarts"] == {"total": 1, "charged": 1, "byCause": {"UserError": 1}, "inPlace": 0}
        assert monitor.violations == []


async def test_suspended_and_resumed_while_no_operator_looked_keeps_the_pods(backend: Backend):
    async with FaultCluster(backend) as cluster:
        monitor = await _running(cluster)
        before = [pod["metadata"]["uid"] for pod in cluster.pods()]
        _kill_operators(cluster)
        cluster.change({"spec": {"suspend": True}})
        cluster.change({"spec": {"suspend": False}})
        await cluster.start_operator().ready()
        await cluster.until(lambda: cluster.holds("Running"), "a running job at the present generation")
        assert [pod["metadata"]["uid"] for pod in cluster.pods()] == before
        assert monitor.violations == []


async def test_pod_deletions_whose_events_were_lost_are_found_by_the_next_list(backend: Backend):
    async with FaultCluster(backend) as cluster:
        monitor = await _running(cluster)
        stop_losing = cluster.server.drop_events(lambda commit: commit.kind.plural == "pods")
        cluster.delete_pod("train-worker-1", grace_seconds=0)
        cluster.server.break_streams("pods")
        cluster.server.forget_history()
        stop_losing()
        await cluster.until(lambda: cluster.status["attempt"] == 1 and cluster.holds("Running"), "a recovered job")
        assert monitor.violations == []


async def test_a_job_deleted_and_created_again_while_no_operator_looked_inherits_nothing(backend: Backend):
    async with FaultCluster(backend) as cluster:
        monitor = await _running(cluster)
        assert cluster.kubelet.exit("train-worker-1", 1)
        await cluster.until(lambda: cluster.status["attempt"] == 1 and cluster.holds("Running"), "a recovered job")
        _kill_operators(cluster)
        cluster.delete_job()
        cluster.apply(training_job(worker=3))
        await cluster.start_operator().ready()
        await cluster.until(lambda: cluster.holds("Running"), "a running job")
        assert cluster.status["restarts"]["total"] == 0
        assert cluster.job is not None
        uid = cluster.job["metadata"]["uid"]
        assert {pod["metadata"]["labels"]["dtj.dev/job-uid"] for pod in cluster.pods()} == {uid}
        assert len(cluster.pods()) == 3
        assert monitor.violations == []


async def test_a_job_deleted_while_no_operator_looked_leaves_nothing_and_nothing_is_made(backend: Backend):
    async with FaultCluster(backend) as cluster:
        await _running(cluster)
        _kill_operators(cluster)
        cluster.delete_job()
        await cluster.until(lambda: not cluster.pods() and not cluster.server.list("services"), "an empty namespace")
        written = len(cluster.writes())
        await cluster.start_operator().ready()
        await cluster.pass_time(3)
        assert len(cluster.writes()) == written


async def test_an_operator_that_slept_an_hour_changes_nothing_that_is_well(backend: Backend):
    async with FaultCluster(backend) as cluster:
        await _running(cluster)
        await cluster.pass_time(3)
        _kill_operators(cluster)
        written = len(cluster.writes())
        cluster.clock.skip(3600)
        await cluster.start_operator().ready()
        await cluster.pass_time(3)
        assert [request.target for request in cluster.writes()[written:]] == []
