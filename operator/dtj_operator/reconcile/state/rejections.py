"""The nodes whose kubelets reject the pods of a replica again and again, as one with a broken GPU does.

The scheduler knows nothing of that, and often prefers such a node, because nothing runs there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import Role
from dtj_operator.api.persisted_state import NodeRejections
from dtj_operator.reconcile.state.index_ranges import format_ranges, parse_ranges
from dtj_operator.reconcile.state.replicas import Replica

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from dtj_operator.api.persisted_state import PersistedState

AVOIDED_FROM = 3
"""After so many rejections in a row the next pods of the replica prefer other nodes."""
MAX_AVOIDED = 32
"""Nodes that the pods of one replica avoid at most."""


class Rejections:
    """The rejections of the pods of each replica, by node, until the replica runs."""

    __slots__ = ("_counts", "_limit")

    def __init__(self, persisted: PersistedState, node_count: int | None) -> None:
        """Start from what status remembers. `node_count`: all nodes of the cluster; None if they cannot be read."""
        self._limit = 1 if node_count is None else min(node_count // 2, MAX_AVOIDED)
        self._counts: dict[Replica, dict[str, int]] = {}
        for role, groups in (persisted.rejections or {}).items():
            for group in groups:
                for index in parse_ranges(group.indexes):
                    self._counts.setdefault(Replica(role, index), {})[group.node] = group.count

    def count(self, replica: Replica, node: str) -> None:
        """Count a rejection. It ends the row of every node that is not avoided yet."""
        before = self._counts.get(replica, {})
        avoided = {name: number for name, number in before.items() if number >= AVOIDED_FROM}
        if node not in avoided and len(avoided) < MAX_AVOIDED:
            avoided[node] = before.get(node, 0) + 1
        self._counts[replica] = avoided

    def forget(self, replicas: Iterable[Replica]) -> None:
        """Forget the rejections of replicas that run."""
        for replica in replicas:
            self._counts.pop(replica, None)

    def forget_training(self) -> None:
        """Forget all but those of evaluators: the job is Running."""
        self.forget([replica for replica in self._counts if replica.role is not Role.EVALUATOR])

    def avoided(self, replica: Replica) -> tuple[str, ...]:
        """Return the nodes that the replica's next pod avoids: at most half of all, so that enough are left."""
        counts = self._counts.get(replica, {})
        return tuple(sorted(node for node, number in counts.items() if number >= AVOIDED_FROM)[: self._limit])

    def all_avoided(self) -> list[str]:
        """Return the nodes that any replica avoids."""
        return sorted({node for replica in self._counts for node in self.avoided(replica)})

    def persisted(self, desired: Collection[Replica]) -> dict[Role, tuple[NodeRejections, ...]] | None:
        """Return the rejections for status, of the replicas that the spec asks for."""
        if not self._counts:
            return None
        kept = set(desired)
        grouped: dict[Role, dict[tuple[str, int], list[int]]] = {}
        for replica, counts in self._counts.items():
            for node, number in counts.items() if replica in kept else ():
                grouped.setdefault(replica.role, {}).setdefault((node, number), []).append(replica.index)
        written = {
            role: tuple(
                NodeRejections(node=node, count=number, indexes=format_ranges(indexes))
                for (node, number), indexes in sorted(grouped[role].items())
            )
            for role in Role
            if role in grouped
        }
        return written or None
