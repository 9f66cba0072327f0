"""Progress, polled from real HTTP servers on the pods' loopback addresses."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from dtj_operator.api.trainer_contract import job_hash
from dtj_operator.controller import trainer_poller
from tests.component.running_operator import JOBS, condition, job, running_operator, status, until
from tests.support.apiserver import ApiServer
from tests.support.kubelet import Kubelet


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(trainer_poller, "FIRST_SECONDS", 0.1)
    monkeypatch.setattr(trainer_poller, "CHECK_SECONDS", 0.05)


@pytest.fixture
async def kubelet(api_server: ApiServer):
    async with Kubelet(api_server) as agent:
        yield agent


@asynccontextmanager
async def trainer(server: ApiServer, answer: Any):
    """Serves /status in place of worker 0."""
    await until(lambda: condition(server, "Running")[0] == "True")
    application = web.Application()
    asked: list[float] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        asked.append(asyncio.get_running_loop().time())
        return answer() if callable(answer) else web.json_response(answer)

    application.router.add_get("/status", handle)
    runner = web.AppRunner(application, shutdown_timeout=0.01)
    await runner.setup()
    pod = server.get("pods", "default", "train-worker-0")
    assert pod is not None
    address = pod["status"]["podIP"]
    await web.TCPSite(runner, address, 9401).start()
    try:
        yield asked
    finally:
        await runner.cleanup()


def said(server: ApiServer, **more: Any) -> dict[str, Any]:
    found = server.get(JOBS, "default", "train")
    assert found is not None
    uid = found["metadata"]["uid"]
    return {
        "job": job_hash(uid),
        "role": "worker",
        "index": 0,
        "step": 120,
        "totalSteps": 500,
        "loss": 0.25,
        "phase": "train",
        **more,
    }


async def test_what_the_success_pod_says_stands_in_the_status_and_is_asked_twice_a_minute_at_most(api_server, kubelet):
    async with running_operator(api_server, progress=True):
        api_server.create(JOBS, job())
        async with trainer(api_server, said(api_server, metrics={"accuracy": 0.9})) as asked:
            await until(lambda: bool(status(api_server).get("progress")))
            found = status(api_server)["progress"]
            assert (found["step"], found["totalSteps"], found["loss"]) == (120, 500, 0.25)
            assert found["metrics"] == {"accuracy": 0.9}
            assert "updatedAt" in found
            await asyncio.sleep(1.0)
            assert len(asked) == 1


async def test_a_recovery_in_place_that_the_success_pod_tells_of_is_counted_and_reported_by_an_event(
    api_server, kubelet
):
    killed = {"time": "2026-01-01T00:00:00Z", "seconds": 0.25, "cause": "killed", "role": "worker", "index": 0}
    async with running_operator(api_server, progress=True) as operator:
        api_server.create(JOBS, job())
        async with trainer(api_server, said(api_server, recoveries={"count": 2, "last": killed})):
            await until(lambda: status(api_server).get("restarts", {}).get("inPlace") == 2)
            assert status(api_server)["lastRecovery"]["cause"] == "Killed"
            await until(lambda: "RecoveredInPlace" in [event["reason"] for event in api_server.list("events")])
    assert b'dtj_in_place_recoveries_total{cause="Killed"} 2.0' in operator.manager.metrics.text()


async def test_a_time_that_no_utc_has_ends_no_operator(api_server, kubelet):
    last = {"time": "0001-01-01T00:00:00+23:59", "seconds": 1, "cause": "killed", "role": "worker", "index": 0}
    async with running_operator(api_server, progress=True):
        api_server.create(JOBS, job())
        async with trainer(api_server, said(api_server, recoveries={"count": 1, "last": last})):
            await until(lambda: status(api_server).get("restarts", {}).get("inPlace") == 1)


async def test_a_trainer_of_an_earlier_version_shows_the_uid_itself(api_server, kubelet):
    async with running_operator(api_server, progress=True):
        api_server.create(JOBS, job())
        earlier = said(api_server)
        del earlier["job"]
        found = api_server.get(JOBS, "default", "train")
        async with trainer(api_server, {**earlier, "uid": found["metadata"]["uid"]}):
            await until(lambda: bool(status(api_server).get("progress")))


async def test_values_without_sense_are_left_out_and_the_others_taken(api_server, kubelet):
    async with running_operator(api_server, progress=True):
        api_server.create(JOBS, job())
        nonsense = {"totalSteps": 2**63, "loss": "high", "metrics": {"accuracy": 0.9, "note": None}}
        async with trainer(api_server, said(api_server, **nonsense)):
            await until(lambda: bool(status(api_server).get("progress")))
            found = status(api_server)["progress"]
            assert found.pop("updatedAt")
            assert found == {"step": 120, "metrics": {"accuracy": 0.9}}


@pytest.mark.parametrize(
    "answer",
    [
        lambda: web.Response(text="x" * 70_000),
        lambda: web.Response(text="not json"),
        lambda: web.json_response({"job": "of another job", "step": 1}),
        lambda: web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}),
        lambda: web.Response(status=500),
    ],
)
async def test_nonsense_is_ignored_and_asked_for_ever_less_often(api_server, kubelet, answer):
    async with running_operator(api_server, progress=True):
        api_server.create(JOBS, job())
        async with trainer(api_server, answer) as asked:
            await until(lambda: len(asked) == 3)
            assert asked[2] - asked[1] > asked[1] - asked[0]
            assert "progress" not in status(api_server)


async def test_a_pod_that_answers_before_its_first_step_is_asked_once_in_a_period_at_least(
    api_server, kubelet, monkeypatch
):
    monkeypatch.setattr(trainer_poller, "PERIOD_SECONDS", 0.3)
    async with running_operator(api_server, progress=True):
        api_server.create(JOBS, job())
        async with trainer(api_server, lambda: web.json_response(said(api_server, step=None, phase="build"))) as asked:
            await until(lambda: len(asked) == 6, seconds=15)
            assert asked[5] - asked[4] < 2.0
