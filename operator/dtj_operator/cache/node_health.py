"""The rules by which a node counts as lost. Pure: the time of day and the event loop's time are arguments.

A kubelet renews its Lease every ten seconds, some more often. A node is lost when its Lease has not been renewed for
as long as the job allows, counted from the last renewal. It must also have been seen without a renewal for more than
one renewal period on the operator's own clock, so that neither a restart of the operator nor a skewed clock makes a
healthy node a lost one. A node without a Lease is judged by its Ready condition. A node whose object is gone is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

RENEWAL_SECONDS = 12.0
"""A little more than the kubelet's renewal period of 10 s."""
MIN_PERIODS = 3
"""Renewal periods of a node that must be seen before its own period is used: the kubelet varies them at random."""
MISSING_SECONDS = 5.0
"""How long a node may be missing here: a pod may name a node before our watch has seen it."""
MIN_NODES = 3
"""With fewer nodes, an outage of the operator cannot be distinguished from lost nodes by their number."""


@dataclass(frozen=True, slots=True)
class LeaseRenewal:
    """The last renewal of one node's Lease."""

    renewed_at: datetime
    """As the kubelet wrote it."""
    seen_at: float
    """Loop time at which this renewal was first seen."""
    exact: bool
    """Whether an earlier renewal had been seen before, so that this one was made at `seen_at`."""
    periods: int = 0
    """Renewal periods that were seen from their beginning to their end."""
    longest: float = 0.0
    """The longest of them, in seconds."""

    @property
    def due_at(self) -> float:
        """Loop time before which a missing renewal means nothing."""
        own = 2 * self.longest if self.periods >= MIN_PERIODS else RENEWAL_SECONDS
        return self.seen_at + min(RENEWAL_SECONDS, own)


@dataclass(frozen=True, slots=True)
class NodeReadiness:
    """The readiness of a node, as its Node object reports it."""

    not_ready_since: datetime | None
    """lastTransitionTime of the Ready condition when it is not True."""


def read_renewal(lease: dict[str, Any], last: LeaseRenewal | None, loop_time: float) -> LeaseRenewal:
    """Return the renewal that a Lease tells of; `last` is the one known before."""
    renewed_at = _parse_time((lease.get("spec") or {}).get("renewTime")) or datetime.min.replace(tzinfo=UTC)
    if last is not None and last.renewed_at == renewed_at:
        return last
    if last is None or not last.exact:
        return LeaseRenewal(renewed_at, loop_time, exact=last is not None)
    longest = max(last.longest, loop_time - last.seen_at)
    return LeaseRenewal(renewed_at, loop_time, exact=True, periods=last.periods + 1, longest=longest)


def read_readiness(node: dict[str, Any]) -> NodeReadiness:
    """Return the readiness that a Node object reports."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready: dict[str, Any] = next((entry for entry in conditions if entry.get("type") == "Ready"), {})
    return NodeReadiness(None if ready.get("status") == "True" else _parse_time(ready.get("lastTransitionTime")))


def lost_at(
    readiness: NodeReadiness,
    renewal: LeaseRenewal | None,
    loss: timedelta,
    *,
    now: datetime,
    loop_time: float,
    unreachable_at: float,
) -> datetime | None:
    """Return when this node counts as lost unless it renews its Lease before; None: not foreseeable.

    `unreachable_at` is the loop time at which the API server last could not be reached. The kubelets may not have
    reached it either, so they get one renewal period more.
    """
    if renewal is None:
        return readiness.not_ready_since + loss if readiness.not_ready_since is not None else None
    renewed_at = now - timedelta(seconds=loop_time - renewal.seen_at) if renewal.exact else renewal.renewed_at
    due_at = max(renewal.due_at, unreachable_at + RENEWAL_SECONDS)
    return max(renewed_at + loss, now + timedelta(seconds=due_at - loop_time))


def missing_lost_at(missing_since: float, *, now: datetime, loop_time: float) -> datetime:
    """Return when a node counts as lost whose object has been missing since that loop time."""
    return now + timedelta(seconds=MISSING_SECONDS - (loop_time - missing_since))


def is_late(readiness: NodeReadiness | None, renewal: LeaseRenewal | None, *, now: datetime, loop_time: float) -> bool:
    """Tell whether a renewal is overdue; never for a node that has no Lease and is Ready."""
    if renewal is not None:
        return loop_time > renewal.due_at
    if readiness is None or readiness.not_ready_since is None:
        return False
    return now - readiness.not_ready_since > timedelta(seconds=RENEWAL_SECONDS)


def partial_outage(nodes: int, lost: int) -> bool:
    """Tell whether so many nodes seem lost that the fault is more likely on the operator's side: none counts then.

    That is the case when more than half of three or more nodes do. The node lifecycle controller has the same idea.
    """
    return nodes >= MIN_NODES and lost * 2 > nodes


def _parse_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
