"""Which nodes have stopped giving signs of life.

A kubelet renews its Lease every ten seconds. A node is lost when its Lease has not been renewed for as long
as the job allows, counted from the last renewal and seen unrenewed for more than one renewal period by our own
clock, so that neither a restart of the operator nor a skewed clock condemns a living node. A node without a
Lease is judged by its Ready condition, one whose Node object is gone is lost. When more than half of three or
more nodes look lost, or there has never been any, the fault is more likely ours, and none is.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dtj_operator.domain.snapshot import Node
from dtj_operator.kube.resources import LEASES, NODES
from dtj_operator.runtime.reflector import Reflector
from dtj_operator.runtime.shelf import Shelf
from dtj_operator.runtime.source import Key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dtj_operator.kube.client import ApiClient
    from dtj_operator.runtime.clock import Clock

LEASE_NAMESPACE = "kube-node-lease"
RENEWAL = timedelta(seconds=12)
"""A little more than the kubelet's renewal period of 10 s."""
SUSPECT_SECONDS = 12.0
LOOK_SECONDS = 1.0
MISSING_SECONDS = 5.0
"""A pod may name a node before our own watch has told us of it."""
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


@dataclass(frozen=True, slots=True)
class _Known:
    """A Node object."""

    unready_since: datetime | None
    """lastTransitionTime of Ready when it is not True."""
    seen_at: float


class NodeWatch:
    """Watches nodes and their leases, and judges them."""

    def __init__(self, client: ApiClient, clock: Clock, suspect: Callable[[str], None]) -> None:
        """`suspect(node)` is called when a node becomes late, recovers, or vanishes."""
        self._clock = clock
        self._suspect = suspect
        self._suspects: set[str] = set()
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
        """Look once a second for nodes that are late; until cancelled."""
        for source in self.sources:
            await source.synced.wait()
        while True:
            late = {name for name in self._names() if self._silent_seconds(name) > SUSPECT_SECONDS}
            for name in late ^ self._suspects:
                self._suspect(name)
            self._suspects = late
            await asyncio.sleep(LOOK_SECONDS)

    def facts(self, names: frozenset[str], loss_seconds: float) -> NodeFacts:
        """What is known of these nodes for a job with that patience, and when silence alone may change it."""
        if not all(source.synced.is_set() for source in self.sources):
            return NOTHING, None
        loss = timedelta(seconds=loss_seconds)
        lost_at = {name: self._lost_at(name, loss) for name in names}
        now = self._clock.now()
        lost = {name for name, at in lost_at.items() if at is not None and at <= now}
        if lost and self._doubtful(loss, now):
            lost = set()
        nodes = {name: Node(name=name, lost=name in lost) for name in names}
        later = [at for name, at in lost_at.items() if at is not None and at > now and name in self._worrying(names)]
        return nodes, min(later, default=None)

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
        now = self._clock.now()
        node = self._held(name)
        if node is None:
            since = self._missing.setdefault(name, asyncio.get_running_loop().time())
            return now + timedelta(seconds=MISSING_SECONDS - (asyncio.get_running_loop().time() - since))
        self._missing.pop(name, None)
        sign = self._sign_of(name)
        if sign is None:
            return node.unready_since + loss if node.unready_since is not None else None
        silent = timedelta(seconds=asyncio.get_running_loop().time() - sign.seen_at)
        if sign.witnessed:
            return now - silent + max(loss, RENEWAL)
        return max(sign.renewed_at + loss, now - silent + RENEWAL)

    def _silent_seconds(self, name: str) -> float:
        """Seconds since the last sign of life; 0 for a node that gives none and is Ready."""
        sign = self._sign_of(name)
        if sign is not None:
            return asyncio.get_running_loop().time() - sign.seen_at
        node = self._held(name)
        if node is None or node.unready_since is None:
            return 0.0
        return (self._clock.now() - node.unready_since).total_seconds()

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
        return _Sign(renewed, asyncio.get_running_loop().time(), witnessed=old is not None)

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
