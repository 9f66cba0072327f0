"""Where watches are blind, the operator is not: lost deletions, streams that stand still, refused credentials, labels.

The operator works on a real API server, behind a proxy that loses events, stops streams and refuses tokens.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from dtj_operator.app import kopf_app
from dtj_operator.app.settings import Address
from dtj_operator.cache import relist, unwatched_objects
from dtj_operator.cache.namespaced_name import NamespacedName
from e2e.cluster import kubeconfig
from e2e.cluster.control_plane import ControlPlane, start_control_plane
from tests.component.running_operator import JOBS, job, running_operator, until
from tests.contract.operator_under_test import ROOT
from tests.support.apiserver import Answer, EventType
from tests.support.apiserver.kinds import JOBS as JOBS_KIND
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess
from tests.support.ports import free_port
from tests.support.realserver import RealCluster, RealServer, prepare

UNCLOSED = "ignore:Exception ignored in.*(socket|Transport):pytest.PytestUnraisableExceptionWarning"
"""kopf leaves the connections of refused credentials to the garbage collector."""
pytestmark = [pytest.mark.contract, pytest.mark.timeout(600), pytest.mark.filterwarnings(UNCLOSED)]
SECONDS = 30.0


@pytest.fixture(autouse=True)
def collect_garbage() -> Iterator[None]:
    """Collect now, so that nothing is left to warn about in a later test."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def own_control_plane() -> Iterator[ControlPlane]:
    with start_control_plane() as running:
        yield running


@pytest.fixture(scope="module")
def cluster(own_control_plane: ControlPlane) -> RealCluster:
    return prepare(own_control_plane)


@pytest.fixture
async def server(cluster: RealCluster) -> AsyncIterator[RealServer]:
    async with RealServer(cluster) as running:
        running.grant_operator_role("operator")
        yield running


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look every second instead of every five minutes, and log in as often."""
    monkeypatch.setattr(relist, "PERIOD_SECONDS", 1.0)
    monkeypatch.setattr(relist, "RETRY_SECONDS", 0.5)
    monkeypatch.setattr(relist, "SETTLE_SECONDS", 0.1)
    monkeypatch.setattr(kopf_app, "LOGIN_SECONDS", 0.5)


def knows(operator: OperatorProcess, server: RealServer, name: str) -> bool:
    return operator.manager.cache.job(NamespacedName(server.namespace, name)) is not None


def create(server: RealServer, name: str) -> None:
    server.create(JOBS, {**job(name), "metadata": {"name": name, "namespace": server.namespace}})


def pods(server: RealServer) -> list[str]:
    return [pod["metadata"]["name"] for pod in server.list("pods")]


async def healthz(port: int) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/healthz") as answer:
        return answer.status, await answer.text()


async def becomes(port: int, code: int) -> str:
    """Wait until the probe answers with this code. Returns what it says."""
    async with asyncio.timeout(SECONDS):
        while True:
            answered, text = await healthz(port)
            if answered == code:
                return text
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("reconnects", [True, False], ids=["kopf connects again", "nothing else happens"])
async def test_a_job_whose_deletion_the_watch_has_lost_is_forgotten(
    server: RealServer,
    impatient: None,
    reconnects: bool,  # noqa: FBT001
):
    async with running_operator(server) as operator:  # type: ignore[arg-type]
        create(server, "train")
        await until(lambda: len(pods(server)) == 2, SECONDS)
        found = server.drop_events(lambda commit: commit.kind is JOBS_KIND and commit.event_type == EventType.DELETED)
        server.delete(JOBS, server.namespace, "train")
        await until(lambda: server.get(JOBS, server.namespace, "train") is None, SECONDS)
        if reconnects:
            server.break_streams(JOBS)
        await until(lambda: not knows(operator, server, "train"), SECONDS)
        found()
        # The next job of this name is another one.
        await until(lambda: pods(server) == [], SECONDS)
        create(server, "train")
        await until(lambda: len(pods(server)) == 2, SECONDS)


async def test_while_the_watch_of_jobs_stands_still_jobs_are_found_by_the_list_and_the_probe_is_right_to_say_ok(
    server: RealServer, impatient: None
):
    port = free_port()
    async with running_operator(server, health=Address("127.0.0.1", port)):  # type: ignore[arg-type]
        server.freeze(JOBS)
        create(server, "train")
        await until(lambda: len(pods(server)) == 2, SECONDS)
        server.delete(JOBS, server.namespace, "train")
        await until(lambda: pods(server) == [], SECONDS)
        assert await healthz(port) == (200, "ok\n")
        server.thaw(JOBS)


async def test_when_no_list_succeeds_any_more_the_probe_says_so_and_after_that_it_heals(
    server: RealServer, impatient: None
):
    port = free_port()
    async with running_operator(server, health=Address("127.0.0.1", port)) as operator:  # type: ignore[arg-type]
        refused = server.faults.add(
            lambda request: request.verb in {"list", "watch"}, Answer(401, "Unauthorized"), times=None
        )
        server.break_streams()
        assert "no list of jobs and pods has succeeded" in await becomes(port, 503)
        # kopf logs in again and again, but it floods nobody.
        before = refused.hits
        await asyncio.sleep(3.0)
        assert refused.hits - before < 100
        server.faults.clear()
        create(server, "train")
        await until(lambda: len(pods(server)) == 2, SECONDS)
        assert knows(operator, server, "train")
        await becomes(port, 200)


async def test_a_pod_and_a_service_that_lose_their_labels_are_still_the_jobs(
    server: RealServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(unwatched_objects, "PERIOD_SECONDS", 0.2)
    without = {"metadata": {"labels": {"dtj.dev/job-name": None, "dtj.dev/attempt": None, "dtj.dev/role": None}}}

    def status() -> dict[str, Any]:
        return (server.get(JOBS, server.namespace, "train") or {}).get("status") or {}

    def uid(name: str) -> str:
        return str((server.get("pods", server.namespace, name) or {"metadata": {"uid": ""}})["metadata"]["uid"])

    async with Kubelet(server) as kubelet:
        async with running_operator(server):  # type: ignore[arg-type]
            create(server, "train")
            await until(lambda: status().get("phase") == "Running", SECONDS)
            before = uid("train-worker-1")
            server.patch("pods", server.namespace, "train-worker-1", without)
            server.patch("services", server.namespace, "train", without)
            await asyncio.sleep(2.0)
        # One that has just started cannot see them either.
        async with running_operator(server):  # type: ignore[arg-type]
            await asyncio.sleep(1.0)
            assert (uid("train-worker-1"), status()["restarts"]["total"]) == (before, 0)
            assert kubelet.exit("train-worker-1", 1)
            await until(lambda: status()["restarts"]["byCause"] == {"UserError": 1}, SECONDS)
            await until(lambda: uid("train-worker-1") not in {"", before}, SECONDS)
            await until(lambda: status()["phase"] == "Running", SECONDS)
    assert status()["attempt"] == 1


async def test_an_operator_whose_credentials_are_not_accepted_ends_with_one_sentence(
    own_control_plane: ControlPlane, tmp_path: Path
):
    authority = own_control_plane.authority.certificate
    config = kubeconfig.write(
        tmp_path / "config", own_control_plane.server, authority, kubeconfig.token_user("of nobody")
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dtj_operator", "run", "--metrics-bind-address=0", "--health-probe-bind-address=0"),
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "operator"), "KUBECONFIG": str(config)},
    )
    _, told = await asyncio.wait_for(process.communicate(), SECONDS)
    assert process.returncode not in {0, None}
    assert "does not accept the credentials" in told.decode().splitlines()[-1]
