"""The previous version of the operator and this one run in turn over living jobs, on the API server in this process."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from e2e.previous_version import WHEEL
from tests.component.running_operator import JOBS, condition, job, running_operator, status, until
from tests.support.apiserver import ApiServer
from tests.support.kubelet import Kubelet

SECONDS = 60.0


@pytest.fixture
async def kubelet(api_server: ApiServer):
    async with Kubelet(api_server) as agent:
        yield agent


@asynccontextmanager
async def previous_operator(server: ApiServer, folder: Path) -> AsyncIterator[None]:
    config = server.kubeconfig(folder / "config", namespace="dtj-system")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dtj_operator", "run", "--no-leader-elect", "--no-progress"),
        *("--metrics-bind-address=0", "--health-probe-bind-address=0", "--log-level=warning"),
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(WHEEL), "KUBECONFIG": str(config)},
    )
    try:
        yield
    finally:
        process.terminate()
        code = await process.wait()
    assert code == 0


async def test_the_previous_version_and_this_one_run_in_turn_over_living_jobs(api_server, kubelet, tmp_path):
    def running(name: str) -> bool:
        return condition(api_server, "Running", name)[0] == "True"

    policy = {"maxRestarts": 4, "backoff": {"initialSeconds": 0, "maxSeconds": 1, "resetAfterSeconds": 600}}
    api_server.create(JOBS, job(failurePolicy=policy))
    api_server.create(JOBS, job("paused"))
    for turn in range(1, 5):
        with_this = running_operator(api_server)
        async with with_this if turn % 2 else previous_operator(api_server, tmp_path):
            await until(lambda: running("train") and running("paused"), SECONDS)
            assert kubelet.exit("train-worker-1", 1)
            done = turn
            await until(lambda done=done: status(api_server)["restarts"]["total"] == done and running("train"), SECONDS)  # type: ignore[misc]
            api_server.patch(JOBS, "default", "paused", {"spec": {"suspend": True}})
            await until(lambda: condition(api_server, "Suspended", "paused")[0] == "True", SECONDS)
        # The other version resumes it.
        api_server.patch(JOBS, "default", "paused", {"spec": {"suspend": False, "ttlSecondsAfterFinished": 600 + turn}})
    async with running_operator(api_server):
        await until(lambda: running("paused"))
        counted = status(api_server)["restarts"]
        assert (counted["total"], counted["charged"], counted["byCause"]) == (4, 4, {"UserError": 4})
        assert kubelet.exit("train-worker-1", 1)
        await until(lambda: condition(api_server, "Failed") == ("True", "MaxRestartsExceeded"))
        assert kubelet.exit("paused-worker-0", 0)
        await until(lambda: condition(api_server, "Succeeded", "paused")[0] == "True")


async def test_a_status_that_this_version_cannot_act_upon_is_reported_and_nothing_is_touched(api_server, kubelet):
    async with running_operator(api_server):
        api_server.create(JOBS, job())
        await until(lambda: condition(api_server, "Running")[0] == "True")
        await asyncio.sleep(1.2)
        api_server.patch(JOBS, "default", "train", {"status": {"ledger": {"version": 99}}}, subresource="status")
        await until(lambda: condition(api_server, "Running") == ("False", "StatusOfLaterVersion"))
        assert "version 99" in status(api_server)["message"]
        api_server.log.clear()
        assert kubelet.exit("train-worker-1", 1)
        await asyncio.sleep(1.0)
        assert api_server.log.writes("dtj-operator/") == []
        # The later version is back, or the state is one of this version again.
        api_server.patch(JOBS, "default", "train", {"status": {"ledger": {"version": 1}}}, subresource="status")
        await until(lambda: condition(api_server, "Running")[0] == "True")
        assert status(api_server)["restarts"]["total"] == 1
