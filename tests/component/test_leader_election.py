"""Leader election on real leases, with short durations."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from dtj_operator.controller.leader_election import LeaderElectionConfig, LeaderElectionError, LeaderElector
from dtj_operator.kube.client import ApiClient
from dtj_operator.kube.rest_config import RestConfig, Token
from tests.component.running_operator import until
from tests.support.apiserver import Answer, ApiServer, Hang

CONFIG = LeaderElectionConfig(
    lease_duration=2.0, renew_deadline=1.0, retry_period=0.1, acquire_period=0.05, namespace_timeout=1.0
)
numbers = itertools.count()


@pytest.fixture
async def electors(api_server: ApiServer):
    """Makes electors, each with its own bearer token."""
    tasks, clients = [], []

    async def make(name: str) -> LeaderElector:
        connection = RestConfig(server=api_server.url, token=Token(name))
        client = await ApiClient(connection, user_agent=f"dtj-operator/{name}").__aenter__()
        clients.append(client)
        elector = LeaderElector(
            client,
            namespace="dtj-system",
            name="dtj-operator",
            identity=name,
            on_change=lambda _leads: None,
            config=CONFIG,
        )
        tasks.append(asyncio.create_task(elector.run()))
        return elector

    yield make
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for client in clients:
        await client.__aexit__(None, None, None)


async def test_the_first_leads_although_there_is_no_lease_yet_and_the_second_waits(electors):
    first = await electors("one")
    await asyncio.wait_for(first.leading.wait(), 1)
    second = await electors("two")
    await asyncio.sleep(2.5)
    assert first.may_write()
    assert not second.leading.is_set()


async def test_a_released_lease_is_taken_over_at_once(electors):
    first = await electors("one")
    await asyncio.wait_for(first.leading.wait(), 1)
    second = await electors("two")
    await asyncio.sleep(0.3)
    await first.release()
    assert not first.may_write()
    await asyncio.wait_for(second.leading.wait(), 1)


async def test_a_released_lease_is_not_taken_again_by_who_gave_it_back(electors):
    first = await electors("one")
    await asyncio.wait_for(first.leading.wait(), 1)
    await first.release()
    await asyncio.wait_for(first.lost.wait(), 2)
    assert not first.may_write()


async def test_a_server_that_says_nothing_does_not_keep_a_leader_from_leaving(electors, api_server):
    first = await electors("one")
    await asyncio.wait_for(first.leading.wait(), 1)
    api_server.faults.add(lambda request: request.verb == "get" and request.token == "one", Hang(), times=None)
    await asyncio.wait_for(first.release(), 5)
    assert not first.may_write()


async def test_a_dead_leader_is_replaced_after_its_lease_and_not_before(electors, api_server):
    first = await electors("one")
    await asyncio.wait_for(first.leading.wait(), 1)
    second = await electors("two")
    await asyncio.sleep(0.3)
    began = asyncio.get_running_loop().time()
    api_server.kill_client("one")
    await asyncio.wait_for(second.leading.wait(), 5)
    assert asyncio.get_running_loop().time() - began > CONFIG.lease_duration - 0.5


async def test_a_leader_that_cannot_renew_stops_before_another_may_start(electors, api_server):
    first = await electors("one")
    await asyncio.wait_for(first.leading.wait(), 1)
    second = await electors("two")
    await asyncio.sleep(0.3)
    api_server.faults.add(lambda request: request.token == "one", Answer(503), times=1000)
    await asyncio.wait_for(first.lost.wait(), 3)
    assert not first.may_write()
    assert not second.leading.is_set()
    await asyncio.wait_for(second.leading.wait(), 5)


async def test_a_leader_that_misses_a_few_renewals_goes_on_leading_and_nobody_else_starts(electors, api_server):
    first = await electors("one")
    await asyncio.wait_for(first.leading.wait(), 1)
    second = await electors("two")
    missed = api_server.faults.add(lambda request: request.token == "one", Answer(503), times=3)
    while missed.hits < 3:  # noqa: ASYNC110  (nobody tells)
        await asyncio.sleep(0.01)
    await asyncio.sleep(CONFIG.renew_deadline)
    assert first.may_write()
    assert not first.lost.is_set()
    assert not second.leading.is_set()


async def test_a_lease_that_somebody_deleted_is_made_again_by_the_leader(electors, api_server):
    first = await electors("one")
    await asyncio.wait_for(first.leading.wait(), 1)
    api_server.delete("leases", "dtj-system", "dtj-operator")
    await asyncio.sleep(CONFIG.renew_deadline)
    assert first.may_write()
    lease = api_server.get("leases", "dtj-system", "dtj-operator")
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == "one"


async def test_a_namespace_that_comes_late_gets_its_lease(electors, api_server):
    api_server.delete("namespaces", "", "dtj-system")
    first = await electors("one")
    await until(lambda: bool(api_server.log.select(lambda request: request.verb == "create" and request.code == 404)))
    api_server.create("namespaces", {"metadata": {"name": "dtj-system"}})
    await asyncio.wait_for(first.leading.wait(), 5)


@pytest.mark.parametrize(
    ("namespace", "name", "words"),
    [
        ("nowhere", "dtj-operator", 'the lease nowhere/dtj-operator cannot be made: namespaces "nowhere" not found'),
        ("dtj-system", "Foo_Bar", "the lease dtj-system/Foo_Bar cannot be made"),
    ],
)
async def test_a_lease_that_can_never_be_made_is_said(api_server, namespace, name, words):
    connection = RestConfig(server=api_server.url, token=Token("one"))
    async with ApiClient(connection, user_agent="dtj-operator/one") as client:
        elector = LeaderElector(
            client, namespace=namespace, name=name, identity="one", on_change=lambda _leads: None, config=CONFIG
        )
        with pytest.raises(LeaderElectionError, match=words):
            await asyncio.wait_for(elector.run(), 10)
