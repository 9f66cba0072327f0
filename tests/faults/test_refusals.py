"""An API server that refuses requests, or does not answer, for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.fault_cluster import Backend, FaultCluster
from tests.faults.invariant_monitor import InvariantMonitor
from tests.faults.workloads import CREATED_WORKERS, training_job
from tests.support.apiserver import Answer, Cut, Hang

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.apiserver.faults import Outcome
    from tests.support.apiserver.log import Request


def _condition(cluster: FaultCluster, name: str) -> dict[str, str]:
    return next((entry for entry in cluster.status.get("conditions", []) if entry["type"] == name), {})


def _is(verb: str) -> Callable[[Request], bool]:
    return lambda request: request.verb == verb


async def test_a_quota_that_is_used_up_is_told_and_heals(backend: Backend):
    async with FaultCluster(backend) as cluster:
        monitor = InvariantMonitor(cluster)
        cluster.server.limit_pods(2)
        await cluster.start_operator().ready()
        cluster.apply(CREATED_WORKERS.job)
        await cluster.until(
            lambda: _condition(cluster, "Running").get("reason") == "QuotaExceeded", "the quota to be told"
        )
        assert "exceeded quota" in _condition(cluster, "Running")["message"]
        refused = len(cluster.writes())
        await cluster.pass_time(10)
        assert len(cluster.writes()) - refused <= 12, "retries in 10 s"
        cluster.server.lift_limits()
        await cluster.until(lambda: cluster.holds("Running"), "a running job")
        assert monitor.violations == []


async def test_a_name_that_is_taken_by_a_foreign_pod_is_told_and_left_alone(backend: Backend):
    async with FaultCluster(backend) as cluster:
        spec = {"containers": [{"name": "main", "image": "other:1"}]}
        cluster.server.create("pods", {"metadata": {"name": "train-worker-1"}, "spec": spec})
        await cluster.until(lambda: len(cluster.pods()) == 1, "a pod of somebody else")
        (foreign,) = cluster.pods()
        await cluster.start_operator().ready()
        cluster.apply(training_job(worker=2))
        await cluster.until(lambda: _condition(cluster, "Running").get("reason") == "NameTaken", "the name to be told")
        (found,) = [pod for pod in cluster.pods() if pod["metadata"]["name"] == "train-worker-1"]
        assert found["metadata"]["uid"] == foreign["metadata"]["uid"]
        cluster.delete_pod("train-worker-1", grace_seconds=0)
        await cluster.until(lambda: cluster.holds("Running"), "a running job")


@pytest.mark.parametrize(
    "trouble",
    [Answer(500), Answer(503, "ServiceUnavailable"), Answer(429, "TooManyRequests"), Cut(), Cut(after_commit=True)],
    ids=["500", "503", "429", "cut before the commit", "cut after the commit"],
)
async def test_three_requests_of_each_verb_that_go_wrong_delay_and_change_nothing(backend: Backend, trouble: Outcome):
    async with FaultCluster(backend) as cluster:
        monitor = InvariantMonitor(cluster)
        await cluster.start_operator().ready()
        for verb in ("get", "create", "patch", "delete", "list", "watch"):
            cluster.server.faults.add(_is(verb), trouble, times=3)
        cluster.apply(training_job(worker=3))
        await cluster.until(lambda: cluster.holds("Running"), "a running job")
        cluster.delete_job()
        await cluster.until(lambda: not cluster.pods(), "an empty namespace")
        assert monitor.violations == []
        assert [operator.error for operator in cluster.operators] == [None]


async def test_a_write_that_is_never_answered_is_given_up_and_settled(backend: Backend):
    async with FaultCluster(backend) as cluster:
        monitor = InvariantMonitor(cluster)
        await cluster.start_operator().ready()
        for after_commit in (False, True):
            cluster.server.faults.add(
                lambda request: request.verb == "create" and request.resource == "pods", Hang(after_commit=after_commit)
            )
        cluster.apply(training_job(worker=3))
        await cluster.until(lambda: cluster.holds("Running"), "a running job")
        assert monitor.violations == []
