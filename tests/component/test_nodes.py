"""Lost nodes, told by leases on the API server in this process."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dtj_operator.kube.client import HttpClient
from dtj_operator.kube.connection import Connection, Token
from dtj_operator.runtime import nodes
from dtj_operator.runtime.clock import SystemClock
from dtj_operator.runtime.nodes import NodeWatch
from tests.support.apiserver import ApiServer


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Renewals every 0.2 s instead of every 10."""
    monkeypatch.setattr(nodes, "RENEWAL", timedelta(seconds=0.3))
    monkeypatch.setattr(nodes, "SUSPECT_SECONDS", 0.3)
    monkeypatch.setattr(nodes, "MISSING_SECONDS", 0.3)
    monkeypatch.setattr(nodes, "LOOK_SECONDS", 0.05)


@pytest.fixture
async def watch(api_server: ApiServer):
    tasks: list[asyncio.Task[None]] = []
    async with HttpClient(Connection(server=api_server.url, token=Token("operator")), user_agent="t") as client:
        suspected: list[str] = []
        watch = NodeWatch(client, SystemClock(), suspected.append)
        watch.suspected = suspected  # type: ignore[attr-defined]

        async def begin() -> NodeWatch:
            tasks.extend(asyncio.create_task(source.run()) for source in watch.sources)
            tasks.append(asyncio.create_task(watch.run()))
            for source in watch.sources:
                await source.synced.wait()
            return watch

        yield begin
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def node(server: ApiServer, name: str, *, ready: bool = True, lease: bool = True, renewed: float = 0.0) -> None:
    server.create("nodes", {"metadata": {"name": name}})
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": moment(-60)}
    server.patch("nodes", "", name, {"status": {"conditions": [condition]}}, subresource="status")
    if lease:
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": moment(renewed)}
        server.create("leases", {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": spec})


def moment(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def renew(server: ApiServer, name: str, at: float = 0.0) -> None:
    server.patch("leases", "kube-node-lease", name, {"spec": {"renewTime": moment(at)}})


def lost(watch: Any, name: str, seconds: float = 0.5) -> bool:
    facts, _ = watch.facts(frozenset({name}), seconds)
    return bool(facts[name].lost)


async def test_a_node_that_stops_renewing_is_suspected_and_then_lost(api_server, watch):
    node(api_server, "a")
    found = await watch()
    renew(api_server, "a", 0.01)
    await asyncio.sleep(0.1)
    assert not lost(found, "a")
    await asyncio.sleep(0.3)
    assert not lost(found, "a")
    _, check = found.facts(frozenset({"a"}), 0.5)
    assert check is not None
    assert 0 < (check - datetime.now(UTC)).total_seconds() < 0.3
    await asyncio.sleep(0.3)
    assert lost(found, "a")
    assert "a" in found.suspected
    renew(api_server, "a", 0.02)
    await asyncio.sleep(0.1)
    assert not lost(found, "a")


async def test_an_operator_that_starts_late_sees_it_unrenewed_for_a_while_before_it_judges(api_server, watch):
    node(api_server, "a", renewed=-600)
    found = await watch()
    assert not lost(found, "a")
    await asyncio.sleep(0.4)
    assert lost(found, "a")


async def test_a_skewed_clock_does_not_condemn_a_node_that_renews(api_server, watch):
    node(api_server, "a", renewed=-600)
    found = await watch()
    for beat in range(6):
        renew(api_server, "a", -600 + beat * 0.1)
        await asyncio.sleep(0.1)
        assert not lost(found, "a")


async def test_a_node_without_a_lease_is_judged_by_its_ready_condition(api_server, watch):
    node(api_server, "a", ready=False, lease=False)
    node(api_server, "b", lease=False)
    found = await watch()
    assert lost(found, "a")
    assert not lost(found, "b")


async def test_a_node_whose_object_is_gone_is_lost_but_not_at_the_first_look(api_server, watch):
    node(api_server, "gone")
    found = await watch()
    api_server.delete("nodes", "", "gone")
    await asyncio.sleep(0.1)
    assert not lost(found, "gone")
    await asyncio.sleep(0.4)
    assert lost(found, "gone")


async def test_where_there_has_never_been_a_node_none_is_lost(api_server, watch):
    found = await watch()
    assert not lost(found, "somewhere")
    await asyncio.sleep(0.4)
    assert not lost(found, "somewhere")


async def test_when_most_of_three_nodes_look_lost_none_is(api_server, watch):
    for name in ("a", "b", "c"):
        node(api_server, name)
    found = await watch()
    await asyncio.sleep(0.7)
    assert not lost(found, "a")
    for beat in (0.01, 0.02):
        renew(api_server, "b", beat)
        renew(api_server, "c", beat)
        await asyncio.sleep(0.05)
    assert lost(found, "a")
    assert not lost(found, "b")
