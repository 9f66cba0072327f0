"""kopf with a manager that only notes the jobs it is told of."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from dtj_operator.app import kopf_app
from dtj_operator.app.preflight import PreflightError
from dtj_operator.app.runnables import RestartNeeded
from dtj_operator.app.settings import Settings
from dtj_operator.kube.resources import JOBS
from dtj_operator.kube.rest_config import RestConfig, Token
from tests.support.apiserver import Answer, ApiServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class JobNames:
    """Stands in for the manager."""

    def __init__(self, rest_config: RestConfig, *namespaces: str, left_out: str = "") -> None:
        self.rest_config = rest_config
        self.settings = Settings(namespaces=namespaces)
        self.namespaces = tuple(namespace for namespace in namespaces if namespace != left_out) or (None,)
        self.ending = asyncio.Event()
        self.failure: Exception | None = None
        self.names: set[str] = set()
        self.kinds: list[str | None] = []
        self.calls: list[str] = []

    async def start(self) -> None:
        self.calls.append("start")
        if self.failure:
            raise self.failure

    async def stop(self) -> None:
        self.calls.append("stop")
        self.ending.set()

    def job_changed(self, kind: str | None, job: dict[str, Any]) -> None:
        self.calls.append("job")
        self.kinds.append(kind)
        (self.names.discard if kind == "DELETED" else self.names.add)(job["metadata"]["name"])

    async def become(self, *names: str, seconds: float = 10.0) -> None:
        async with asyncio.timeout(seconds):
            while set(self.names) != set(names):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def operate(manager: Any) -> None:
    """Run kopf in the loop of another thread, as the API server of the test is in this one."""
    await asyncio.to_thread(asyncio.run, kopf_app.run(manager))


@asynccontextmanager
async def operating(manager: JobNames) -> AsyncIterator[None]:
    running = asyncio.create_task(operate(manager))
    try:
        yield
    finally:
        manager.ending._loop.call_soon_threadsafe(manager.ending.set)  # type: ignore[attr-defined]
        await running


@pytest.fixture
def rest_config(api_server: ApiServer) -> RestConfig:
    return RestConfig(server=api_server.url, token=Token("operator"))


def job(server: ApiServer, name: str, namespace: str = "default") -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicaSpecs": {"worker": {"template": template}}}
    server.create(JOBS.plural, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})


@pytest.mark.parametrize("namespaces", [(), ("default",)])
async def test_kopf_tells_jobs_and_writes_nothing(rest_config, api_server, namespaces):
    manager = JobNames(rest_config, *namespaces)
    job(api_server, "old")
    async with operating(manager):
        await manager.become("old")
        job(api_server, "new")
        await manager.become("old", "new")
        api_server.delete(JOBS.plural, "default", "old")
        await manager.become("new")
    assert manager.kinds == [None, "ADDED", "DELETED"]
    assert (manager.calls[0], manager.calls[-1]) == ("start", "stop")
    assert api_server.log.writes("dtj-operator/") == []
    assert all(request.user_agent.startswith("dtj-operator/") for request in api_server.log.requests)


async def test_a_namespace_that_the_start_leaves_out_is_not_watched(rest_config, api_server):
    manager = JobNames(rest_config, "default", "kube-system", left_out="kube-system")
    job(api_server, "elsewhere", "kube-system")
    job(api_server, "here")
    async with operating(manager):
        await manager.become("here")
    namespaces = {request.namespace for request in api_server.log.select(lambda request: request.verb == "watch")}
    assert namespaces == {"default"}


async def test_an_error_of_the_start_is_raised_as_it_is_and_nothing_is_watched(rest_config, api_server):
    manager = JobNames(rest_config)
    manager.failure = PreflightError("no rights")
    with pytest.raises(PreflightError, match="no rights"):
        await operate(manager)
    assert api_server.log.requests == []


@pytest.mark.parametrize("code", [403, 410])
async def test_a_watch_of_jobs_that_kopf_gives_up_ends_the_process(rest_config, api_server, code, monkeypatch):
    monkeypatch.setattr(kopf_app, "ERROR_PAUSES", (0.01,))
    api_server.faults.add(lambda request: request.verb == "watch", Answer(code), times=None)
    manager = JobNames(rest_config)
    with pytest.raises(RestartNeeded, match="the watch of jobs has ended"):
        await asyncio.wait_for(operate(manager), 20)
    assert manager.calls[-1] == "stop"


async def test_a_server_that_accepts_no_credentials_for_a_while_is_not_flooded_by_kopf(
    api_server, tmp_path, monkeypatch
):
    monkeypatch.setattr(kopf_app, "LOGIN_SECONDS", 0.3)
    token = tmp_path / "token"
    token.write_text("old")
    manager = JobNames(RestConfig(server=api_server.url, token=Token(file=token)))
    job(api_server, "first")
    async with operating(manager):
        await manager.become("first")
        api_server.faults.add(lambda request: request.token == "old", Answer(401, "Unauthorized"), times=None)
        before = len(api_server.log.requests)
        api_server.break_streams(JOBS.plural)
        await asyncio.sleep(1.5)
        assert 2 <= len(api_server.log.requests) - before <= 8
        token.write_text("new")
        job(api_server, "second")
        await manager.become("first", "second")
