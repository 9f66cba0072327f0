"""Restarts of the operator: what must not change, and what must still happen."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from dtj_operator.builders.pod import build_pod
from tests.component.running_operator import JOBS, condition, job, running_operator, status, until
from tests.support.kubelet import Kubelet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.apiserver import ApiServer
    from tests.support.operator_process import OperatorProcess


@pytest.fixture
async def kubelet(api_server: ApiServer) -> AsyncIterator[Kubelet]:
    async with Kubelet(api_server) as agent:
        yield agent


def running(server: ApiServer, name: str = "train") -> bool:
    return condition(server, "Running", name)[0] == "True"


async def settled(server: ApiServer) -> None:
    """Wait until delayed counts have been written."""
    await until(lambda: status(server)["workers"] == "2/2")


async def test_a_new_version_whose_pod_builder_differs_restarts_nothing_and_writes_nothing(
    api_server: ApiServer, kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch
):
    async with running_operator(api_server):
        api_server.create(JOBS, job())
        await until(lambda: running(api_server))
        await settled(api_server)
    before = [pod["metadata"]["uid"] for pod in api_server.list("pods")]
    api_server.log.clear()

    def newer(*arguments: Any) -> dict[str, Any]:
        pod = build_pod(*arguments)
        pod["metadata"]["annotations"] = {"dtj.dev/builder": "2"}
        pod["spec"]["containers"][0]["env"].append({"name": "NEW", "value": "1"})
        return pod

    monkeypatch.setattr("dtj_operator.controller.plan_executor.build_pod", newer)
    async with running_operator(api_server):
        await asyncio.sleep(1.5)
        assert [request.target for request in api_server.log.writes("dtj-operator/")] == []
        assert [pod["metadata"]["uid"] for pod in api_server.list("pods")] == before
        kubelet.exit("train-worker-1", 1)
        await until(lambda: kubelet.incarnations("train-worker-1") == 2 and running(api_server))
    builders = [pod["metadata"].get("annotations", {}).get("dtj.dev/builder") for pod in api_server.list("pods")]
    assert builders == [None, "2"]


@pytest.mark.parametrize(
    ("deadline", "reason"),
    [("activeDeadlineSeconds", "DeadlineExceeded"), ("startDeadlineSeconds", "StartDeadlineExceeded")],
)
async def test_a_deadline_fires_in_time_under_the_operator_that_came_after(
    api_server: ApiServer, deadline: str, reason: str
):
    # No kubelet: nothing happens to the pods, so that only time can wake the operator.
    async with running_operator(api_server):
        spec: dict[str, Any] = {deadline: 4}
        api_server.create(JOBS, job(**spec))
        await until(lambda: len(api_server.list("pods")) == 2)
    async with running_operator(api_server):
        await until(lambda: condition(api_server, "Failed")[0] == "True")
    now = datetime.now(UTC)
    assert condition(api_server, "Failed") == ("True", reason)
    began = datetime.fromisoformat(status(api_server)["startTime"])
    assert 4.0 <= (now - began).total_seconds() < 4.0 + 2.0


async def test_a_finished_job_goes_in_time_under_the_operator_that_came_after(api_server: ApiServer, kubelet: Kubelet):
    async with running_operator(api_server):
        api_server.create(JOBS, job(ttlSecondsAfterFinished=3))
        await until(lambda: running(api_server))
        kubelet.exit("train-worker-0", 0)
        await until(lambda: condition(api_server, "Succeeded")[0] == "True")
        ended = datetime.fromisoformat(status(api_server)["completionTime"])
    async with running_operator(api_server):
        await until(lambda: api_server.get(JOBS, "default", "train") is None)
    assert 3.0 <= (datetime.now(UTC) - ended).total_seconds() < 3.0 + 2.0


async def test_a_standby_counts_no_jobs_until_it_works(api_server: ApiServer, kubelet: Kubelet):
    first = running_operator(api_server, token="one", leader_elect=True)
    leader = await first.__aenter__()
    api_server.create(JOBS, job())
    await until(lambda: counted(leader, "dtj_jobs", phase="Running") == 1)
    async with running_operator(api_server, token="two", leader_elect=True) as standby:
        assert counted(standby, "dtj_jobs", phase="Running") == 0
        await first.__aexit__(None, None, None)
        await until(lambda: counted(standby, "dtj_jobs", phase="Running") == 1)


async def test_counters_begin_at_0_and_gauges_are_right_at_once(api_server: ApiServer, kubelet: Kubelet):
    async with running_operator(api_server) as first:
        api_server.create(JOBS, job())
        await until(lambda: running(api_server))
        kubelet.exit("train-worker-1", 1)
        await until(lambda: status(api_server)["attempt"] == 1 and running(api_server))
        # The server has a write before the operator has its answer; the recovery is what is written last.
        await until(lambda: counted(first, "dtj_recovery_seconds_count") == 1)
        assert counted(first, "dtj_jobs_created_total") == 1
        assert counted(first, "dtj_pods_created_total") == 3
        assert counted(first, "dtj_restarts_total", cause="UserError") == 1
        assert counted(first, "dtj_jobs", phase="Running") == 1
    async with running_operator(api_server) as second:
        assert counted(second, "dtj_jobs", phase="Running") == 1
        for name in ("dtj_jobs_created_total", "dtj_pods_created_total", "dtj_recovery_seconds_count"):
            assert counted(second, name) == 0
        assert counted(second, "dtj_restarts_total", cause="UserError") == 0
        kubelet.exit("train-worker-0", 0)
        await until(lambda: condition(api_server, "Succeeded")[0] == "True")
        await until(lambda: counted(second, "dtj_jobs_succeeded_total") == 1)
        assert counted(second, "dtj_jobs", phase="Succeeded") == 1
        assert counted(second, "dtj_jobs", phase="Running") == 0
    api_server.create(JOBS, job("theirs", managedBy="kueue.x-k8s.io/multikueue"))
    async with running_operator(api_server) as third:
        assert counted(third, "dtj_jobs", phase="Pending") == 0
        assert counted(third, "dtj_jobs_succeeded_total") == 0
        assert counted(third, "dtj_jobs", phase="Succeeded") == 1


def counted(operator: OperatorProcess, name: str, **labels: str) -> float | None:
    return operator.manager.metrics.registry.get_sample_value(name, labels)
