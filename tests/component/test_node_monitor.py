"""Lost nodes, detected by leases on the API server in this process, in the loop's own time."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from dtj_operator.cache.node_health import MISSING_SECONDS, RENEWAL_SECONDS
from dtj_operator.cache.node_monitor import CHECK_SECONDS, NodeMonitor
from dtj_operator.kube.client import ApiClient
from dtj_operator.kube.rest_config import RestConfig, Token
from tests.support.apiserver import Answer, ApiServer
from tests.support.apiserver.faults import Rule
from tests.support.fasttime import IdleLoop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

LOSS_SECONDS = 30.0
RENEWED_EVERY = 10.0
READ_ANEW_SECONDS = 0.2


class NodeCluster:
    """Nodes with leases, and the monitor that watches them from `begin` on."""

    def __init__(self, server: ApiServer, client: ApiClient, loop: IdleLoop) -> None:
        self.changed: list[str] = []
        self.monitor = NodeMonitor(client, loop.now, self.changed.append)
        self._server = server
        self._loop = loop
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        self._tasks = [asyncio.create_task(reflector.run()) for reflector in self.monitor.reflectors]
        self._tasks.append(asyncio.create_task(self.monitor.run()))
        for reflector in self.monitor.reflectors:
            await reflector.synced.wait()
        self.changed.clear()
        self._loop.hurry()

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def node(self, name: str, *, ready: bool = True, lease: bool = True, renewed: float = 0.0) -> None:
        self._server.create("nodes", {"metadata": {"name": name}})
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": self._moment(-60)}
        self._server.patch("nodes", "", name, {"status": {"conditions": [condition]}}, subresource="status")
        if lease:
            spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": self._moment(renewed)}
            self._server.create("leases", {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": spec})

    def remove(self, name: str) -> None:
        self._server.delete("nodes", "", name)

    async def renew(self, name: str, skew: float = 0.0) -> None:
        """Renew a lease, and wait until the watch has seen it."""
        self._server.patch("leases", "kube-node-lease", name, {"spec": {"renewTime": self._moment(skew)}})
        await asyncio.sleep(0.1)

    async def lost(self, name: str, loss_seconds: float = LOSS_SECONDS) -> bool:
        """Ask as a job does that is reconciled, and reconciled again when it is requeued."""
        self.monitor.health(frozenset({name}), loss_seconds)
        await asyncio.sleep(READ_ANEW_SECONDS)
        nodes, _ = self.monitor.health(frozenset({name}), loss_seconds)
        return bool(nodes[name].lost)

    def stall(self, plural: str) -> None:
        """Stop the watch."""
        self._server.freeze(plural)

    def cut_off(self) -> Rule:
        """Make the API server unreachable for all."""
        return self._server.faults.add(lambda _request: True, Answer(503), times=None)

    def reads(self) -> int:
        return len(self._server.log.select(lambda request: request.verb == "get"))

    def foreseen(self, name: str) -> float | None:
        """Return the seconds from now after which a missing renewal alone may make the node a lost one."""
        _, check = self.monitor.health(frozenset({name}), LOSS_SECONDS)
        return None if check is None else (check - self._loop.now()).total_seconds()

    def _moment(self, seconds: float) -> str:
        return (self._loop.now() + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def in_idle_time(scenario: Callable[[NodeCluster], Awaitable[None]]) -> Callable[[], None]:
    """Run the scenario of a test."""

    async def told(loop: IdleLoop) -> None:
        async with ApiServer(now=loop.now) as server:
            rest_config = RestConfig(server=server.url, token=Token("operator"))
            async with ApiClient(rest_config, user_agent="t") as client:
                cluster = NodeCluster(server, client, loop)
                try:
                    await scenario(cluster)
                finally:
                    await cluster.end()

    def test() -> None:
        loop = IdleLoop()
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(told(loop))

    return test


@in_idle_time
async def test_a_node_that_stops_renewing_is_late_and_then_lost(cluster: NodeCluster):
    cluster.node("a")
    await cluster.begin()
    for _ in range(6):
        await cluster.renew("a")
        assert not await cluster.lost("a")
        assert cluster.foreseen("a") is None
        await asyncio.sleep(RENEWED_EVERY)
    assert cluster.changed == []
    await asyncio.sleep(LOSS_SECONDS - RENEWED_EVERY - 1)
    assert set(cluster.changed) == {"a"}
    assert not await cluster.lost("a")
    left = cluster.foreseen("a")
    assert left is not None
    assert 0 < left <= 1
    await asyncio.sleep(left)
    assert await cluster.lost("a")
    await cluster.renew("a")
    assert not await cluster.lost("a")


@in_idle_time
async def test_a_node_that_renews_is_not_lost_however_small_the_patience(cluster: NodeCluster):
    cluster.node("a")
    await cluster.begin()
    for _ in range(6):
        await cluster.renew("a")
        await asyncio.sleep(RENEWED_EVERY)
        assert not await cluster.lost("a", loss_seconds=1)
    await asyncio.sleep(RENEWAL_SECONDS - RENEWED_EVERY)
    assert await cluster.lost("a", loss_seconds=1)


@in_idle_time
async def test_a_node_that_renews_more_often_is_lost_sooner_where_the_job_wants_it(cluster: NodeCluster):
    cluster.node("a")
    await cluster.begin()
    for _ in range(5):
        await cluster.renew("a")
        await asyncio.sleep(0.9)
    cluster.changed.clear()
    await asyncio.sleep(2.5)
    assert set(cluster.changed) == {"a"}
    assert not await cluster.lost("a", loss_seconds=5)
    await asyncio.sleep(1.5)
    assert await cluster.lost("a", loss_seconds=5)


@in_idle_time
async def test_a_few_renewals_that_follow_each_other_quickly_say_nothing_of_the_next(cluster: NodeCluster):
    cluster.node("a")
    await cluster.begin()
    for pause in (1.0, 1.0, RENEWED_EVERY, 1.0, 1.0, 1.0, RENEWED_EVERY):
        await cluster.renew("a")
        await asyncio.sleep(pause)
        assert not await cluster.lost("a", loss_seconds=1)


@in_idle_time
async def test_a_node_that_renews_more_often_gets_as_long_as_others_after_an_outage(cluster: NodeCluster):
    cluster.node("a")
    await cluster.begin()
    await asyncio.sleep(1)  # the watches are open, and stay so
    for _ in range(5):
        await cluster.renew("a")
        await asyncio.sleep(0.9)
    outage = cluster.cut_off()
    await asyncio.sleep(RENEWED_EVERY)
    outage.times = 0
    await asyncio.sleep(RENEWED_EVERY - 1)
    assert not await cluster.lost("a", loss_seconds=5)
    await cluster.renew("a")
    assert not await cluster.lost("a", loss_seconds=5)


@in_idle_time
async def test_an_operator_that_starts_late_sees_it_unrenewed_for_a_while_before_it_judges(cluster: NodeCluster):
    cluster.node("a", renewed=-600)
    await cluster.begin()
    assert not await cluster.lost("a")
    await asyncio.sleep(RENEWAL_SECONDS - 1)
    assert not await cluster.lost("a")
    await asyncio.sleep(1)
    assert await cluster.lost("a")


@in_idle_time
async def test_a_skewed_clock_does_not_condemn_a_node_that_renews(cluster: NodeCluster):
    cluster.node("a", renewed=-600)
    await cluster.begin()
    for _ in range(6):
        await cluster.renew("a", skew=-600)
        await asyncio.sleep(RENEWED_EVERY)
        assert not await cluster.lost("a")


@in_idle_time
async def test_a_node_without_a_lease_is_judged_by_its_ready_condition(cluster: NodeCluster):
    cluster.node("a", ready=False, lease=False)
    cluster.node("b", lease=False)
    await cluster.begin()
    assert await cluster.lost("a")
    assert not await cluster.lost("b")


@in_idle_time
async def test_a_node_whose_object_is_gone_is_lost_but_not_at_the_first_look(cluster: NodeCluster):
    cluster.node("gone")
    await cluster.begin()
    cluster.remove("gone")
    await asyncio.sleep(0.1)
    assert not await cluster.lost("gone")
    await asyncio.sleep(MISSING_SECONDS - 1)
    assert not await cluster.lost("gone")
    await asyncio.sleep(1)
    assert await cluster.lost("gone")


@in_idle_time
async def test_a_node_that_the_watch_has_not_told_of_is_not_a_lost_one(cluster: NodeCluster):
    cluster.node("old")
    await cluster.begin()
    cluster.stall("nodes")
    cluster.node("new")
    for _ in range(3):
        assert not await cluster.lost("new")
        await asyncio.sleep(MISSING_SECONDS)


@in_idle_time
async def test_a_watch_of_leases_that_stalls_condemns_no_node(cluster: NodeCluster):
    cluster.node("a")
    await cluster.begin()
    cluster.stall("leases")
    for _ in range(9):
        await asyncio.sleep(RENEWED_EVERY)
        await cluster.renew("a")
        assert not await cluster.lost("a")


@in_idle_time
async def test_when_nobody_could_reach_the_api_server_nodes_get_the_time_for_one_more_renewal(cluster: NodeCluster):
    for name in ("a", "b", "c", "dead"):
        cluster.node(name)
    await cluster.begin()
    await asyncio.sleep(1)  # the watches are open, and stay so
    outage = cluster.cut_off()
    await asyncio.sleep(2 * LOSS_SECONDS)
    outage.times = 0
    await cluster.renew("a")
    await cluster.renew("c")
    await asyncio.sleep(RENEWED_EVERY - 1)
    assert not await cluster.lost("b")
    await cluster.renew("b")
    await asyncio.sleep(RENEWAL_SECONDS)
    assert not await cluster.lost("b")
    assert await cluster.lost("dead")


@in_idle_time
async def test_only_nodes_that_may_be_lost_are_read_and_only_for_a_while(cluster: NodeCluster):
    cluster.node("a")
    cluster.node("b")
    await cluster.begin()
    for _ in range(12):
        await cluster.renew("b")
        await cluster.lost("a")
        await cluster.lost("b")
        await asyncio.sleep(RENEWED_EVERY)
    assert await cluster.lost("a")
    # The node and its lease, when it was late and when it seemed lost.
    assert cluster.reads() == 4


@in_idle_time
async def test_where_there_has_never_been_a_node_none_is_lost(cluster: NodeCluster):
    await cluster.begin()
    assert not await cluster.lost("somewhere")
    await asyncio.sleep(2 * MISSING_SECONDS)
    assert not await cluster.lost("somewhere")


async def begin_in_silence(cluster: NodeCluster, *nodes: str) -> None:
    """Watch nodes whose leases have all expired for long enough to be lost."""
    for name in nodes:
        cluster.node(name)
    await cluster.begin()
    await asyncio.sleep(LOSS_SECONDS + 1)


@in_idle_time
async def test_when_most_of_three_nodes_look_lost_none_is(cluster: NodeCluster):
    await begin_in_silence(cluster, "a", "b", "c")
    assert not await cluster.lost("a")
    await cluster.renew("b")
    await cluster.renew("c")
    assert await cluster.lost("a")
    assert not await cluster.lost("b")


@in_idle_time
async def test_when_most_nodes_are_back_those_that_are_not_are_looked_at_again(cluster: NodeCluster):
    await begin_in_silence(cluster, "a", "b", "c")
    assert not await cluster.lost("a")
    cluster.changed.clear()
    await cluster.renew("b")
    await cluster.renew("c")
    await asyncio.sleep(2 * CHECK_SECONDS)
    assert "a" in cluster.changed
    assert await cluster.lost("a")


@in_idle_time
async def test_a_node_that_is_gone_is_looked_at_again_when_there_are_enough_others(cluster: NodeCluster):
    await begin_in_silence(cluster, "a", "b", "c", "gone")
    cluster.remove("gone")
    for _ in range(2):
        assert not await cluster.lost("gone")
        await asyncio.sleep(MISSING_SECONDS + 1)
    assert not await cluster.lost("gone")
    cluster.changed.clear()
    for name in ("d", "e", "f"):
        cluster.node(name)
    await asyncio.sleep(2 * CHECK_SECONDS)
    assert "gone" in cluster.changed
    assert await cluster.lost("gone")


async def test_a_pass_over_ten_times_as_many_silent_nodes_takes_about_ten_times_as_long():
    async with ApiClient(RestConfig(server="http://127.0.0.1:9", token=Token("t")), user_agent="t") as client:
        monitor = NodeMonitor(client, lambda: datetime.now(UTC), lambda _name: None)
        nodes, leases = monitor.reflectors
        renewed = (datetime.now(UTC) - timedelta(seconds=10)).isoformat()
        for number in range(1000):
            metadata = {"name": f"n{number}", "uid": f"u{number}", "resourceVersion": "1"}
            monitor._nodes.upsert(
                {"metadata": metadata, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            )
            monitor._renewals.upsert({"metadata": metadata, "spec": {"renewTime": renewed}})
        nodes.synced.set()
        leases.synced.set()
        monitor._late = {f"n{number}" for number in range(1000)}

        def seconds(count: int) -> float:
            names, best = frozenset(f"n{number}" for number in range(count)), float("inf")
            for _ in range(5):
                began = time.thread_time()
                health, later = monitor.health(names, LOSS_SECONDS)
                best = min(best, time.thread_time() - began)
                assert (len(health), later is not None) == (count, True)
            return best

        assert seconds(1000) < 25 * seconds(100)
