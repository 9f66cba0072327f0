"""Which nodes have stopped giving signs of life.

A kubelet renews its Lease every ten seconds, some more often. A node is lost when its Lease has not been renewed for
as long as the job allows, counted from the last renewal and seen unrenewed for more than one renewal period by our own
clock, so that neither a restart of the operator nor a skewed clock condemns a living node. A node without a
Lease is judged by its Ready condition, one whose Node object is gone is lost. When more than half of three or
more nodes look lost, or there has never been any, the fault is more likely ours, and none is.

What a watch has not told may be the watch's fault: no node is lost before it has been read anew. And where the
API server could not be reached, the kubelets may not have reached it either: they get one renewal period more.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dtj_operator.cache.indexer import Shelf
from dtj_operator.cache.namespaced_name import Key
from dtj_operator.cache.reflector import Reflector
from dtj_operator.kube.errors import KubeError, NotFound
from dtj_operator.kube.resources import LEASES, NODES
from dtj_operator.reconcile.state.snapshot import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dtj_operator.kube.client import ApiClient

logger = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
RENEWAL_SECONDS = 12.0
"""A little more than the kubelet's renewal period of 10 s."""
ENOUGH_PERIODS = 3
"""So many of a node's own periods are seen before they count: the kubelet's are never all short by chance."""
LOOK_SECONDS = 1.0
MISSING_SECONDS = 5.0
"""A pod may name a node before our own watch has told us of it."""
READ_SECONDS = 5.0
"""How long a node may take to be read anew."""
ENOUGH_NODES = 3

NOTHING: Mapping[str, Node] = MappingProxyType({})
NodeFacts = tuple["Mapping[str, Node]", "datetime | None"]


def unknown_nodes(_names: frozenset[str], _loss_seconds: float) -> NodeFacts:
    """The facts of an operator that may not read nodes: none."""
    return NOTHING, None


@dataclass(frozen=True, slots=True)
class _Sign:
    """The last sign of life of one node."""

    renewed_at: datetime
    seen_at: float
    """Loop time at which this renewal was first seen."""
    witnessed: bool
    """Whether an earlier one had been seen before, so that `seen_at` is when it was made."""
    periods: int = 0
    """Times between renewals that were seen from end to end."""
    longest: float = 0.0
    """The longest of them, seconds."""

    @property
    def due_at(self) -> float:
        """Loop time before which the absence of the next renewal means nothing."""
        own = 2 * self.longest if self.periods >= ENOUGH_PERIODS else RENEWAL_SECONDS
        return self.seen_at + min(RENEWAL_SECONDS, own)


@dataclass(frozen=True, slots=True)
class _Known:
    """A Node object."""

    unready_since: datetime | None
    """lastTransitionTime of Ready when it is not True."""
    seen_at: float


class NodeWatch:
    """Watches nodes and their leases, and judges them."""

    def __init__(self, client: ApiClient, now: Callable[[], datetime], suspect: Callable[[str], None]) -> None:
        """`suspect(node)` is called when a node becomes late, recovers, or vanishes."""
        self._client = client
        self._now = now
        self._suspect = suspect
        self._suspects: set[str] = set()
        self._unread: set[str] = set()
        """Nodes that have to be read anew before they are judged."""
        self._spared: set[str] = set()
        """Nodes that looked lost when too many did."""
        self._asked = asyncio.Event()
        self._read_at: dict[str, float] = {}
        """By node, the loop time before it was read last."""
        self._deaf_at = float("-inf")
        """Loop time at which a node could not be read."""
        self._missing: dict[str, float] = {}
        self._met = False
        """Whether there has been any node: where there never was one, none has been lost."""
        self._signs: Shelf[_Sign] = Shelf(view=self._sign, key=_key, changed=_ignore, matters=_never)
        self._nodes: Shelf[_Known] = Shelf(view=self._known, key=_key, changed=self._changed, matters=_differs)
        self.sources = (
            Reflector(client, NODES, None, self._nodes),
            Reflector(client, LEASES, LEASE_NAMESPACE, self._signs),
        )

    async def run(self) -> None:
        """Look once a second for nodes that are late, and read those anew that may be lost; until cancelled."""
        for source in self.sources:
            await source.synced.wait()
        number = 0
        while True:
            names = self._names()
            late = {name for name in names if self._late(name)}
            news = late ^ self._suspects
            if news or len(names) != number:
                # Some may be too many no more: of those that were spared nothing else would tell.
                news |= self._spared
                self._spared.clear()
            for name in news:
                self._suspect(name)
            self._unread |= late - self._suspects
            self._unread -= self._suspects - late
            self._suspects, number = late, len(names)
            self._asked.clear()
            await self._read()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), LOOK_SECONDS)

    async def _read(self) -> None:
        """Read nodes and their leases past the watches, as far as the API server can be reached."""
        loop = asyncio.get_running_loop()
        for name in tuple(self._unread):
            began = loop.time()
            try:
                async with asyncio.timeout(READ_SECONDS):
                    with suppress(NotFound):
                        self._nodes.upsert(await self._client.get(NODES, None, name))
                    with suppress(NotFound):
                        self._signs.upsert(await self._client.get(LEASES, LEASE_NAMESPACE, name))
            except (KubeError, TimeoutError) as error:
                self._deaf_at = loop.time()
                logger.warning("node not read", extra={"node": name, "error": str(error) or "timed out"})
                return
            self._unread.discard(name)
            self._read_at[name] = began
            self._suspect(name)

    def facts(self, names: frozenset[str], loss_seconds: float) -> NodeFacts:
        """What is known of these nodes for a job with that patience, and when silence alone may change it."""
        if not all(source.synced.is_set() for source in self.sources):
            return NOTHING, None
        loss = timedelta(seconds=loss_seconds)
        lost_at = {name: self._lost_at(name, loss) for name in names}
        now = self._now()
        seem = {name: now - at for name, at in lost_at.items() if at is not None and at <= now}
        if seem and self._doubtful(loss, now):
            self._spared |= seem.keys()
            seem = {}
        lost = {name for name, since in seem.items() if self._read_within(name, since)}
        unread = seem.keys() - lost - self._unread
        if unread:
            self._unread |= unread
            self._asked.set()
        nodes = {name: Node(name=name, lost=name in lost) for name in names}
        later = [at for name, at in lost_at.items() if at is not None and at > now and name in self._worrying(names)]
        return nodes, min(later, default=None)

    def _read_within(self, name: str, past: timedelta) -> bool:
        read_at = self._read_at.get(name)
        return read_at is not None and asyncio.get_running_loop().time() - read_at <= past.total_seconds()

    def _worrying(self, names: frozenset[str]) -> set[str]:
        return {name for name in names if name in self._suspects or self._held(name) is None}

    def _doubtful(self, loss: timedelta, now: datetime) -> bool:
        names = self._names()
        if len(names) < ENOUGH_NODES:
            return not self._met
        late = sum(1 for name in names if (at := self._lost_at(name, loss)) is not None and at <= now)
        return late * 2 > len(names)

    def _lost_at(self, name: str, loss: timedelta) -> datetime | None:
        """When this node counts as lost unless it gives a sign of life before; None: not foreseeable."""
        now = self._now()
        node = self._held(name)
        if node is None:
            since = self._missing.setdefault(name, asyncio.get_running_loop().time())
            return now + timedelta(seconds=MISSING_SECONDS - (asyncio.get_running_loop().time() - since))
        self._missing.pop(name, None)
        sign = self._sign_of(name)
        if sign is None:
            return node.unready_since + loss if node.unready_since is not None else None
        time = asyncio.get_running_loop().time()
        renewed_at = now - timedelta(seconds=time - sign.seen_at) if sign.witnessed else sign.renewed_at
        due_at = max(sign.due_at, self._deaf_at + RENEWAL_SECONDS)
        return max(renewed_at + loss, now + timedelta(seconds=due_at - time))

    def _late(self, name: str) -> bool:
        """Whether a sign of life is overdue; never of a node that gives none and is Ready."""
        sign = self._sign_of(name)
        if sign is not None:
            return asyncio.get_running_loop().time() > sign.due_at
        node = self._held(name)
        if node is None or node.unready_since is None:
            return False
        return self._now() - node.unready_since > timedelta(seconds=RENEWAL_SECONDS)

    def _names(self) -> list[str]:
        return [key.name for key in self._nodes.jobs()]

    def _held(self, name: str) -> _Known | None:
        held = self._nodes.held(Key("", name), name)
        return held.value if held else None

    def _sign_of(self, name: str) -> _Sign | None:
        held = self._signs.held(Key("", name), name)
        return held.value if held else None

    def _sign(self, raw: dict[str, Any]) -> _Sign:
        renewed = _time((raw.get("spec") or {}).get("renewTime")) or datetime.min.replace(tzinfo=UTC)
        old = self._sign_of(raw["metadata"]["name"])
        if old is not None and old.renewed_at == renewed:
            return old
        now = asyncio.get_running_loop().time()
        if old is None or not old.witnessed:
            return _Sign(renewed, now, witnessed=old is not None)
        return _Sign(renewed, now, witnessed=True, periods=old.periods + 1, longest=max(old.longest, now - old.seen_at))

    def _known(self, raw: dict[str, Any]) -> _Known:
        self._met = True
        conditions = (raw.get("status") or {}).get("conditions") or ()
        ready: dict[str, Any] = next((entry for entry in conditions if entry.get("type") == "Ready"), {})
        since = None if ready.get("status") == "True" else _time(ready.get("lastTransitionTime"))
        return _Known(since, asyncio.get_running_loop().time())

    def _changed(self, key: Key) -> None:
        self._suspect(key.name)


def _key(raw: dict[str, Any]) -> Key:
    return Key("", raw["metadata"]["name"])


def _differs(old: _Known, new: _Known) -> bool:
    return old != replace(new, seen_at=old.seen_at)


def _never(_old: object, _new: object) -> bool:
    return False


def _ignore(_key: Key) -> None:
    pass


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
