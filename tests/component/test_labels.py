"""Labels belong to the tenant: one that was changed or taken away changes nothing about a job."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dtj_operator.cache import unwatched_objects
from tests.component.running_operator import JOBS, condition, job, running_operator, status, until
from tests.support.apiserver import ApiServer
from tests.support.kubelet import Kubelet

NO_LABEL = {f"dtj.dev/{name}": None for name in ("job-name", "job-uid", "role", "index", "attempt")}
CHANGES: dict[str, dict[str, Any]] = {
    "a huge attempt": {"dtj.dev/attempt": "9007199254740991"},
    "no attempt": {"dtj.dev/attempt": None},
    "another role and index": {"dtj.dev/role": "ps", "dtj.dev/index": "1"},
    "another job": {"dtj.dev/job-name": "other", "dtj.dev/job-uid": "other"},
    "no job": {"dtj.dev/job-name": None},
    "none at all": NO_LABEL,
}
POD = "train-worker-1"


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(unwatched_objects, "PERIOD_SECONDS", 0.1)
    monkeypatch.setattr(unwatched_objects, "PAUSE_SECONDS", 0.01)


@pytest.fixture
async def kubelet(api_server: ApiServer):
    async with Kubelet(api_server) as agent:
        yield agent


def uids(server: ApiServer) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in server.list("pods")}


async def running(server: ApiServer) -> None:
    await until(lambda: condition(server, "Running")[0] == "True")
    await asyncio.sleep(1.2)  # changes of counts alone are written after a second


def relabel(server: ApiServer, change: dict[str, Any], kind: str = "pods", name: str = POD) -> None:
    server.patch(kind, "default", name, {"metadata": {"labels": change}})


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_a_label_that_was_changed_or_taken_away_causes_no_write_and_the_pod_is_still_the_jobs(
    api_server, kubelet, change
):
    async with running_operator(api_server):
        api_server.create(JOBS, job())
        await running(api_server)
        before = uids(api_server)
        api_server.log.clear()
        relabel(api_server, change)
        await asyncio.sleep(0.5)
        assert api_server.log.writes("dtj-operator/") == []
        assert kubelet.exit(POD, 1)
        await until(lambda: status(api_server)["restarts"]["total"] == 1 and POD in uids(api_server))
        await running(api_server)
        assert status(api_server)["restarts"]["byCause"] == {"UserError": 1}
        assert status(api_server)["attempt"] == 1
        assert uids(api_server)["train-worker-0"] == before["train-worker-0"]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_a_label_that_was_changed_while_no_operator_looked_restarts_nothing(api_server, kubelet, change):
    async with running_operator(api_server):
        api_server.create(JOBS, job())
        await running(api_server)
    before = uids(api_server)
    relabel(api_server, change)
    async with running_operator(api_server):
        await asyncio.sleep(0.5)
        assert kubelet.exit("train-worker-0", 0)
        await until(lambda: condition(api_server, "Succeeded")[0] == "True")
        # What still runs at the end is removed, with or without labels.
        await until(lambda: POD not in uids(api_server))
    assert status(api_server)["restarts"]["total"] == 0
    assert uids(api_server)["train-worker-0"] == before["train-worker-0"]


async def test_a_job_that_is_suspended_while_no_operator_looks_stops_its_pod_without_a_label_too(api_server, kubelet):
    async with running_operator(api_server):
        api_server.create(JOBS, job())
        await running(api_server)
    relabel(api_server, NO_LABEL)
    api_server.patch(JOBS, "default", "train", {"spec": {"suspend": True}})
    async with running_operator(api_server):
        await until(lambda: condition(api_server, "Suspended")[0] == "True" and not uids(api_server))
    assert status(api_server)["restarts"]["total"] == 0


async def test_a_pod_without_its_label_that_is_deleted_was_deleted_and_is_replaced(api_server, kubelet):
    async with running_operator(api_server):
        api_server.create(JOBS, job())
        await running(api_server)
        relabel(api_server, NO_LABEL)
        await asyncio.sleep(0.3)
        api_server.delete("pods", "default", POD)
        await until(lambda: status(api_server)["restarts"]["byCause"] == {"Deleted": 1})
        await running(api_server)


async def test_a_service_without_its_label_is_still_the_jobs(api_server, kubelet):
    async with running_operator(api_server):
        api_server.create(JOBS, job())
        await running(api_server)
        relabel(api_server, {"dtj.dev/job-name": None}, "services", "train")
        await asyncio.sleep(0.5)
        api_server.log.clear()
        await asyncio.sleep(0.5)
        assert api_server.log.writes("dtj-operator/") == []
        assert condition(api_server, "Running") == ("True", "AllReady")
        api_server.delete("services", "default", "train")
        await until(lambda: bool(api_server.list("services")))


async def test_a_pod_of_nobody_whose_label_is_changed_again_and_again_leaves_nothing_in_the_cache(api_server, kubelet):
    labels = {"dtj.dev/job-name": "other"}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    async with running_operator(api_server) as operator:
        api_server.create("pods", {"metadata": {"name": "stray", "labels": labels}, "spec": spec})
        for number in range(200):
            relabel(api_server, {"dtj.dev/job-name": f"other-{number}"}, name="stray")
        cache = operator.manager.cache
        await until(lambda: [key.name for key in cache.pods.list_keys()] == ["other-199"])
        assert len(cache.pods) == 1
