"""Reflector and relister as sources of an indexer."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from dtj_operator.cache.indexer import Indexer
from dtj_operator.cache.namespaced_name import NamespacedName
from dtj_operator.cache.reflector import Reflector, list_into
from dtj_operator.cache.relist import Relister
from dtj_operator.kube.client import ApiClient
from dtj_operator.kube.resources import PODS
from dtj_operator.kube.rest_config import RestConfig, Token
from tests.support.apiserver import Answer, ApiServer


class Names(Indexer[str]):
    """Return the indexed objects by name."""

    def __init__(self) -> None:
        super().__init__(
            transform=lambda raw: str(raw["metadata"]["name"]),
            key=lambda raw: NamespacedName(raw["metadata"]["namespace"], "all"),
            on_change=lambda _key: None,
            changed=lambda _old, _new: True,
        )

    def known(self) -> set[str]:
        return {name for _, name in self.items()}

    async def become(self, *names: str, seconds: float = 5.0) -> None:
        async with asyncio.timeout(seconds):
            while self.known() != set(names):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.fixture
def rest_config(api_server: ApiServer) -> RestConfig:
    return RestConfig(server=api_server.url, token=Token("operator"))


@pytest.fixture
async def client(rest_config: RestConfig):
    async with ApiClient(rest_config, user_agent="dtj-operator/test") as opened:
        yield opened


@asynccontextmanager
async def running(work: Any):
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def pod(server: ApiServer, name: str, *, label: str = "train") -> None:
    metadata = {"name": name, "labels": {"dtj.dev/job-name": label} if label else {}}
    server.create("pods", {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}})


async def test_a_reflector_knows_what_was_there_and_what_comes_and_goes(client, api_server):
    names = Names()
    pod(api_server, "a")
    pod(api_server, "foreign", label="")
    async with running(Reflector(client, PODS, None, names, labels="dtj.dev/job-name").run()):
        await names.become("a")
        pod(api_server, "b")
        await names.become("a", "b")
        api_server.delete("pods", "default", "a", grace_seconds=0)
        await names.become("b")


async def test_a_pod_that_gets_its_label_back_is_known_again(client, api_server):
    names = Names()
    pod(api_server, "a")
    async with running(Reflector(client, PODS, None, names, labels="dtj.dev/job-name").run()):
        await names.become("a")
        for label in (None, "train"):
            change = {"metadata": {"labels": {"dtj.dev/job-name": label}}}
            api_server.patch("pods", "default", "a", change)
            await names.become(*(["a"] if label else []))


async def test_while_a_page_is_read_the_next_is_on_its_way(client, api_server, monkeypatch):
    order: list[str] = []

    class Reader(Names):
        def upsert(self, raw: dict[str, Any]) -> None:
            order.append(raw["metadata"]["name"])
            super().upsert(raw)

    request = client._transport.send

    async def asked(*call: Any, **how: Any) -> Any:
        order.append("ask")
        return await request(*call, **how)

    for name in ("a", "b", "c"):
        pod(api_server, name)
    monkeypatch.setattr(client._transport, "send", asked)
    monkeypatch.setattr(client, "list_pages", partial(client.list_pages, limit=1))
    names = Reader()
    await list_into(client, PODS, None, names)
    assert order == ["ask", "ask", "a", "ask", "b", "c"]
    assert names.known() == {"a", "b", "c"}


async def test_a_server_that_answers_each_watch_with_410_is_not_asked_for_lists_without_a_pause(client, api_server):
    names = Names()
    pod(api_server, "a")
    api_server.faults.add(lambda request: request.verb == "watch", Answer(410, "Expired"), times=None)
    async with running(Reflector(client, PODS, None, names, labels="dtj.dev/job-name").run()):
        await names.become("a")
        await asyncio.sleep(1.0)
    assert 2 <= len(api_server.log.select(lambda request: request.verb == "list")) <= 5


async def test_a_deletion_during_a_broken_stream_is_found_by_the_list_that_follows_410(client, api_server):
    names = Names()
    pod(api_server, "a")
    pod(api_server, "b")
    async with running(Reflector(client, PODS, None, names).run()):
        await names.become("a", "b")
        lost = api_server.drop_events(lambda _commit: True)
        api_server.delete("pods", "default", "a", grace_seconds=0)
        lost()
        api_server.forget_history()
        api_server.break_streams("pods")
        await names.become("b")


async def test_a_relist_finds_a_deletion_that_the_watch_has_missed(client, api_server):
    names = Names()
    pod(api_server, "a")
    async with running(Reflector(client, PODS, None, names).run()):
        await names.become("a")
        api_server.drop_events(lambda _commit: True)
        api_server.delete("pods", "default", "a", grace_seconds=0)
        await asyncio.sleep(0.05)
        assert names.known() == {"a"}
        relister = Relister(client, PODS, [None], names)
        await relister.compare()
        assert names.known() == set()
        assert relister.healthy


def requested(api_server: ApiServer, verb: str) -> list[str]:
    return [request.name for request in api_server.log.select(lambda request: request.verb == verb)]


def version_of(names: Names, name: str) -> int:
    entry = names.get(NamespacedName("default", "all"), name)
    assert entry is not None
    return entry.resource_version


async def test_a_relist_carries_metadata_alone_and_reads_only_what_the_watch_has_missed(
    client, api_server, monkeypatch
):
    names = Names()
    for name in ("a", "b", "c"):
        pod(api_server, name)
    await list_into(client, PODS, None, names)
    versions = {name: version_of(names, name) for name in names.known()}
    api_server.patch("pods", "default", "b", {"metadata": {"annotations": {"x": "1"}}})
    pod(api_server, "d")
    listed: list[dict[str, Any]] = []
    request = client._transport.send

    async def sent(*call: Any, **how: Any) -> Any:
        answer = await request(*call, **how)
        listed.extend(answer.get("items", ()))
        return answer

    monkeypatch.setattr(client._transport, "send", sent)
    await Relister(client, PODS, [None], names).compare()
    assert len(listed) == 4
    assert all(item.keys() == {"apiVersion", "kind", "metadata"} for item in listed)
    assert sorted(requested(api_server, "get")) == ["b", "d"]
    assert names.known() == {"a", "b", "c", "d"}
    assert version_of(names, "b") > versions["b"]


async def test_a_relist_that_finds_too_much_missing_lists_all(client, api_server, monkeypatch):
    monkeypatch.setattr("dtj_operator.cache.relist.MAX_READS", 2)
    names = Names()
    for name in ("a", "b", "c"):
        pod(api_server, name)
    await Relister(client, PODS, [None], names).compare()
    assert names.known() == {"a", "b", "c"}
    assert requested(api_server, "get") == []


async def test_a_relist_leaves_to_the_watch_what_it_brings_meanwhile(client, api_server, monkeypatch):
    names = Names()
    pod(api_server, "a")
    pages = client.list_pages

    async def overtaken(*call: Any, **how: Any) -> Any:
        async for page in pages(*call, **how):
            yield page
            names.upsert(api_server.get("pods", "default", "a"))

    monkeypatch.setattr(client, "list_pages", overtaken)
    await Relister(client, PODS, [None], names).compare()
    assert requested(api_server, "get") == []
    assert names.known() == {"a"}
