"""NodeMonitor: watches nodes and their leases, and reports lost nodes.

`node_health` says when a node is lost. A watch may have missed something, so no node counts as lost before it has been
read from the API server once more.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dtj_operator.cache.indexer import Indexer
from dtj_operator.cache.namespaced_name import NamespacedName
from dtj_operator.cache.node_health import (
    MIN_NODES,
    is_late,
    lost_at,
    missing_lost_at,
    partial_outage,
    read_readiness,
    read_renewal,
)
from dtj_operator.cache.reflector import Reflector
from dtj_operator.kube.errors import KubeError, NotFound
from dtj_operator.kube.resources import LEASES, NODES
from dtj_operator.reconcile.state.snapshot import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from dtj_operator.cache.node_health import LeaseRenewal, NodeReadiness
    from dtj_operator.kube.client import ApiClient

logger = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
CHECK_SECONDS = 1.0
READ_SECONDS = 5.0
"""How long it may take to read a node once more."""

NO_NODES: Mapping[str, Node] = MappingProxyType({})
NodeHealth = tuple["Mapping[str, Node]", "datetime | None"]
"""Nodes by name, and when one of them may become lost by the passing of time alone."""


class NoNodes:
    """In place of a NodeMonitor, for an operator that may not read nodes."""

    def health(self, _names: frozenset[str], _loss_seconds: float) -> NodeHealth:
        """Return no node."""
        return NO_NODES, None

    def count(self) -> int | None:
        """Return that nobody knows how many there are."""
        return None


class NodeMonitor:
    """A monitor of nodes and their leases."""

    def __init__(self, client: ApiClient, now: Callable[[], datetime], on_node_change: Callable[[str], None]) -> None:
        """`on_node_change(node)` is called when a node becomes late, recovers, or disappears."""
        self._client = client
        self._now = now
        self._on_node_change = on_node_change
        self._late: set[str] = set()
        """Nodes whose renewal is overdue."""
        self._unread: set[str] = set()
        """Nodes that have to be read once more before they can be lost."""
        self._spared: set[str] = set()
        """Nodes that seemed lost during a partial outage."""
        self._wake = asyncio.Event()
        self._read_at: dict[str, float] = {}
        """By node, the loop time before it was last read."""
        self._unreachable_at = float("-inf")
        """Loop time at which a node could not be read."""
        self._missing_since: dict[str, float] = {}
        """By node, the loop time since which its object is missing."""
        self._any_seen = False
        """Whether there has ever been a node: otherwise none can have been lost."""
        self._renewals: Indexer[LeaseRenewal] = Indexer(
            transform=self._read_renewal, key=_node_key, on_change=_ignore, changed=_never
        )
        self._nodes: Indexer[NodeReadiness] = Indexer(
            transform=self._read_readiness, key=_node_key, on_change=self._node_changed, changed=_differs
        )
        self.reflectors = (
            Reflector(client, NODES, None, self._nodes),
            Reflector(client, LEASES, LEASE_NAMESPACE, self._renewals),
        )

    async def run(self) -> None:
        """Look once a second for nodes that are late, and read those again that may be lost; until cancelled."""
        for reflector in self.reflectors:
            await reflector.synced.wait()
        count = 0
        while True:
            names = self._names()
            late = {name for name in names if self._is_late(name)}
            changed = late ^ self._late
            if changed or len(names) != count:
                # The partial outage may be over, and nothing else would tell of the nodes that were spared.
                changed |= self._spared
                self._spared.clear()
            for name in changed:
                self._on_node_change(name)
            self._unread |= late - self._late
            self._unread -= self._late - late
            self._late, count = late, len(names)
            self._wake.clear()
            await self._read_again()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), CHECK_SECONDS)

    async def _read_again(self) -> None:
        """Read nodes and their leases without the watches, until the API server cannot be reached."""
        loop = asyncio.get_running_loop()
        for name in tuple(self._unread):
            began = loop.time()
            try:
                async with asyncio.timeout(READ_SECONDS):
                    with suppress(NotFound):
                        self._nodes.upsert(await self._client.get(NODES, None, name))
                    with suppress(NotFound):
                        self._renewals.upsert(await self._client.get(LEASES, LEASE_NAMESPACE, name))
            except (KubeError, TimeoutError) as error:
                self._unreachable_at = loop.time()
                logger.warning("reading node failed", extra={"node": name, "error": str(error) or "timed out"})
                return
            self._unread.discard(name)
            self._read_at[name] = began
            self._on_node_change(name)

    def health(self, names: frozenset[str], loss_seconds: float) -> NodeHealth:
        """Return these nodes as a job sees them that calls a node lost after `loss_seconds`."""
        if not all(reflector.synced.is_set() for reflector in self.reflectors):
            return NO_NODES, None
        loss = timedelta(seconds=loss_seconds)
        times = {name: self._lost_at(name, loss) for name in names}
        now = self._now()
        candidates = {name: now - at for name, at in times.items() if at is not None and at <= now}
        if candidates and self._partial_outage(loss, now):
            self._spared |= candidates.keys()
            candidates = {}
        lost = {name for name, since in candidates.items() if self._read_within(name, since)}
        unread = candidates.keys() - lost - self._unread
        if unread:
            self._unread |= unread
            self._wake.set()
        nodes = {name: Node(name=name, lost=name in lost) for name in names}
        later = [at for name, at in times.items() if at is not None and at > now and self._may_be_lost(name)]
        return nodes, min(later, default=None)

    def count(self) -> int | None:
        """Return how many nodes there are; None before that is known."""
        return len(self._nodes) if self.reflectors[0].synced.is_set() else None

    def _read_within(self, name: str, past: timedelta) -> bool:
        read_at = self._read_at.get(name)
        return read_at is not None and asyncio.get_running_loop().time() - read_at <= past.total_seconds()

    def _may_be_lost(self, name: str) -> bool:
        return name in self._late or self._readiness(name) is None

    def _partial_outage(self, loss: timedelta, now: datetime) -> bool:
        names = self._names()
        if len(names) < MIN_NODES:
            return not self._any_seen
        return partial_outage(len(names), sum(1 for name in names if (at := self._lost_at(name, loss)) and at <= now))

    def _lost_at(self, name: str, loss: timedelta) -> datetime | None:
        now, loop_time = self._now(), asyncio.get_running_loop().time()
        readiness = self._readiness(name)
        if readiness is None:
            return missing_lost_at(self._missing_since.setdefault(name, loop_time), now=now, loop_time=loop_time)
        self._missing_since.pop(name, None)
        return lost_at(
            readiness,
            self._renewal(name),
            loss,
            now=now,
            loop_time=loop_time,
            unreachable_at=self._unreachable_at,
        )

    def _is_late(self, name: str) -> bool:
        loop_time = asyncio.get_running_loop().time()
        return is_late(self._readiness(name), self._renewal(name), now=self._now(), loop_time=loop_time)

    def _names(self) -> list[str]:
        return [key.name for key in self._nodes.list_keys()]

    def _readiness(self, name: str) -> NodeReadiness | None:
        entry = self._nodes.get(NamespacedName("", name), name)
        return entry.value if entry else None

    def _renewal(self, name: str) -> LeaseRenewal | None:
        entry = self._renewals.get(NamespacedName("", name), name)
        return entry.value if entry else None

    def _read_renewal(self, raw: dict[str, Any]) -> LeaseRenewal:
        return read_renewal(raw, self._renewal(raw["metadata"]["name"]), asyncio.get_running_loop().time())

    def _read_readiness(self, raw: dict[str, Any]) -> NodeReadiness:
        self._any_seen = True
        return read_readiness(raw)

    def _node_changed(self, key: NamespacedName) -> None:
        self._on_node_change(key.name)


def _node_key(raw: dict[str, Any]) -> NamespacedName:
    return NamespacedName("", raw["metadata"]["name"])


def _differs(old: NodeReadiness, new: NodeReadiness) -> bool:
    return old != new


def _never(_old: object, _new: object) -> bool:
    return False


def _ignore(_key: NamespacedName) -> None:
    pass
