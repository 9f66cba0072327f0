"""The client against the API server in this process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dtj_operator.kube.client import ApiClient
from dtj_operator.kube.errors import AlreadyExists, Conflict, Fenced, Gone, NotFound, OutcomeUnknown, Refused, Retry
from dtj_operator.kube.resources import JOBS, PODS, SERVICES
from dtj_operator.kube.rest_config import RestConfig, Token
from dtj_operator.kube.transport import MAX_CONNECTIONS
from tests.component.running_operator import job
from tests.support.apiserver import Answer, ApiServer, Cut, Slow, too_many_requests


@pytest.fixture
async def client(api_server: ApiServer):
    rest_config = RestConfig(server=api_server.url, token=Token("operator"))
    async with ApiClient(rest_config, user_agent="dtj-operator/test") as opened:
        yield opened


def pod(name: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "x"}}, "spec": spec}


async def test_a_created_object_can_be_read_and_is_created_once(client):
    created = await client.create(PODS, "default", pod("a"))
    assert (await client.get(PODS, "default", "a"))["metadata"]["uid"] == created["metadata"]["uid"]
    with pytest.raises(AlreadyExists):
        await client.create(PODS, "default", pod("a"))


async def test_an_absent_object_is_not_found(client):
    with pytest.raises(NotFound):
        await client.get(PODS, "default", "nobody")


async def test_a_deletion_means_one_incarnation(client, api_server):
    created = await client.create(PODS, "default", pod("a"))
    with pytest.raises(Conflict):
        await client.delete(PODS, "default", "a", uid="another")
    await client.delete(PODS, "default", "a", uid=created["metadata"]["uid"], grace=0)
    assert api_server.get("pods", "default", "a") is None


async def test_a_list_comes_in_pages_that_hold_everything_once(client):
    for number in range(7):
        await client.create(PODS, "default", pod(f"p{number}"))
    pages = [page async for page in client.list_pages(PODS, None, labels="app=x", limit=3)]
    assert [len(page.items) for page in pages] == [3, 3, 1]
    assert len({item["metadata"]["name"] for page in pages for item in page.items}) == 7


async def test_a_status_written_over_a_newer_version_conflicts(client, api_server):
    made = api_server.create(JOBS.plural, job())
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "status": {"phase": "Pending"}}
    await client.patch_status(JOBS, "default", "train", stale)
    with pytest.raises(Conflict):
        await client.patch_status(JOBS, "default", "train", {**stale, "status": {"phase": "Running"}})


async def test_a_create_that_was_told_to_wait_is_sent_again_and_happens_once(client, api_server):
    api_server.faults.add(lambda request: request.verb == "create", too_many_requests(0), times=2)
    await client.create(SERVICES, "default", {"metadata": {"name": "s"}, "spec": {"clusterIP": "None"}})
    assert len([r for r in api_server.log.writes() if r.resource == "services"]) == 3
    assert len(api_server.list("services")) == 1


@pytest.mark.parametrize("fault", [Cut(after_commit=True), Cut(), Answer(504), Answer(500, after_commit=True)])
async def test_a_create_without_a_clear_answer_is_unknown_and_not_repeated(client, api_server, fault):
    api_server.faults.add(lambda request: request.verb == "create", fault, times=1)
    with pytest.raises(OutcomeUnknown):
        await client.create(PODS, "default", pod("a"))
    assert len([r for r in api_server.log.writes() if r.resource == "pods"]) == 1


async def test_a_write_that_may_not_be_sent_is_not_while_reads_go_on(client, api_server):
    fenced = client.fenced(lambda: False)
    with pytest.raises(Fenced, match="was not sent"):
        await fenced.create(PODS, "default", pod("a"))
    with pytest.raises(NotFound):
        await fenced.get(PODS, "default", "a")
    await client.create(PODS, "default", pod("a"))
    assert len(api_server.log.writes()) == 1


async def test_a_write_that_waits_for_its_turn_is_not_sent_when_it_may_not_be_by_then(api_server):
    rest_config = RestConfig(server=api_server.url, token=Token("operator"))
    async with ApiClient(rest_config, user_agent="t", qps=10, burst=1) as client:
        allowed = True
        writing = asyncio.create_task(client.fenced(lambda: allowed).create(PODS, "default", pod("a")))
        later = asyncio.create_task(client.fenced(lambda: allowed).create(PODS, "default", pod("b")))
        await writing
        allowed = False
        with pytest.raises(Fenced):
            await later
    assert len(api_server.log.writes()) == 1


async def test_a_write_that_waits_for_a_connection_is_not_sent_when_it_may_not_be_by_then(client, api_server):
    slow = api_server.faults.add(lambda request: request.verb == "list", Slow(0.2), times=None)
    reads = [asyncio.ensure_future(anext(client.list_pages(PODS, None))) for _ in range(MAX_CONNECTIONS)]
    while slow.hits < MAX_CONNECTIONS:  # noqa: ASYNC110  (nobody tells)
        await asyncio.sleep(0.001)
    allowed = True
    writing = asyncio.create_task(client.fenced(lambda: allowed).create(PODS, "default", pod("a")))
    await asyncio.sleep(0)
    allowed = False
    with pytest.raises(Fenced):
        await writing
    await asyncio.gather(*reads)
    assert api_server.log.writes() == []


async def test_a_write_that_was_told_to_wait_is_not_sent_again_when_it_may_not_be_by_then(client, api_server):
    busy = api_server.faults.add(lambda request: request.verb == "create", too_many_requests(0), times=None)
    with pytest.raises(Fenced):
        await client.fenced(lambda: busy.hits < 2).create(PODS, "default", pod("a"))
    assert busy.hits == 2


async def test_a_deletion_whose_connection_broke_is_not_sent_again_when_it_may_not_be_by_then(client, api_server):
    created = await client.create(PODS, "default", pod("a"))
    # The connection has been used before: the library below would send the same once more by itself.
    cut = api_server.faults.add(lambda request: request.verb == "delete", Cut(), times=None)
    with pytest.raises(Fenced):
        await client.fenced(lambda: not cut.hits).delete(PODS, "default", "a", uid=created["metadata"]["uid"])
    assert cut.hits == 1


async def test_reads_survive_a_hiccup(client, api_server):
    await client.create(PODS, "default", pod("a"))
    api_server.faults.add(lambda request: request.verb == "get", Answer(503), times=2)
    assert (await client.get(PODS, "default", "a"))["metadata"]["name"] == "a"


async def test_what_rbac_forbids_is_refused(api_server):
    api_server.access.grant("poor", "system:serviceaccount:x:y", [])
    rest_config = RestConfig(server=api_server.url, token=Token("poor"))
    async with ApiClient(rest_config, user_agent="t") as client:
        with pytest.raises(Refused, match="cannot get resource"):
            await client.get(PODS, "default", "a")


async def test_a_server_that_is_not_there_means_retry():
    async with ApiClient(RestConfig(server="http://127.0.0.1:9"), user_agent="t") as client:
        with pytest.raises(Retry, match="cannot be reached"):
            await client.create(PODS, "default", pod("a"))


async def test_a_watch_tells_changes_in_order_and_410_when_history_is_gone(client, api_server):
    first = await client.create(PODS, "default", pod("a"))
    since = first["metadata"]["resourceVersion"]
    await client.create(PODS, "default", pod("b"))
    await client.delete(PODS, "default", "a", uid=first["metadata"]["uid"], grace=0)
    seen = []
    async for change in client.watch(PODS, None, since=since):
        seen.append((change.type, change.object["metadata"]["name"]))
        if change.type == "DELETED":
            break
    assert seen[0] == ("ADDED", "b")
    assert seen[-1] == ("DELETED", "a")
    api_server.forget_history()
    with pytest.raises(Gone):
        async for _ in client.watch(PODS, None, since="1"):
            pass
