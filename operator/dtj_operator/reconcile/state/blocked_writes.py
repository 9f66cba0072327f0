"""Writes that the API server refused: why, and when each is tried again.

The wait doubles with each refusal of the same kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dtj_operator.reconcile.state.job_pods import JobPods
    from dtj_operator.reconcile.state.replicas import Replicas
    from dtj_operator.reconcile.state.snapshot import Snapshot


class BlockedReason(StrEnum):
    """The reason why the API server refused a write; the values are condition reasons."""

    NAME_TAKEN = "NameTaken"
    QUOTA_EXCEEDED = "QuotaExceeded"
    POD_REFUSED = "PodRefused"
    NAMESPACE_TERMINATING = "NamespaceTerminating"
    INVALID = "Invalid"


@dataclass(frozen=True, slots=True)
class BlockedWrite:
    """The latest refusal of one write of this job, kept until that write succeeds."""

    kind: BlockedReason
    target: str
    """Name of the pod or service that was to be created."""
    message: str
    """The API server's own words."""
    since: datetime
    """When the write was refused for the first time."""
    pause: timedelta
    """The time from the latest refusal to the next attempt."""
    retry_at: datetime
    """When it is tried again even if nothing has changed."""
    generation: int
    """Generation of the job at that time; a newer spec is tried at once."""

    def rests(self, now: datetime) -> bool:
        """Return whether it is too early to try again. Lasts at most `pause`, even if the clock was set back."""
        return now < self.retry_at <= now + self.pause


FIRST_PAUSE = {
    BlockedReason.NAME_TAKEN: timedelta(seconds=5),
    BlockedReason.QUOTA_EXCEEDED: timedelta(seconds=5),
    BlockedReason.POD_REFUSED: timedelta(seconds=5),
    BlockedReason.NAMESPACE_TERMINATING: timedelta(seconds=30),
    BlockedReason.INVALID: timedelta(seconds=60),
}

LONGEST_PAUSE = timedelta(seconds=60)
ONE_TARGET_ONLY = frozenset({BlockedReason.NAME_TAKEN})
"""These stop one object; every other reason stops its peers too until it is tried again."""


def record_refusal(
    kind: BlockedReason,
    target: str,
    message: str,
    *,
    generation: int,
    now: datetime,
    before: BlockedWrite | None = None,
) -> BlockedWrite:
    """Return the record of a refusal. `before`: the record of the one before it."""
    if before is None or before.kind is not kind:
        pause = FIRST_PAUSE[kind]
        return BlockedWrite(kind, target, message, now, pause, now + pause, generation)
    pause = min(LONGEST_PAUSE, 2 * before.pause)
    return BlockedWrite(kind, target, message, before.since, pause, now + pause, generation)


def too_early(blocked_writes: Iterable[BlockedWrite], target: str, generation: int, now: datetime) -> bool:
    """Return whether that object may not be created yet. A new generation may try at once."""
    return any(
        blocked.generation == generation
        and (blocked.target == target or blocked.kind not in ONE_TARGET_ONLY)
        and blocked.rests(now)
        for blocked in blocked_writes
    )


def unanswered(reason: str, snapshot: Snapshot, pods: JobPods, replicas: Replicas) -> bool:
    """Return whether a former operator reported that refusal, and its write has not been tried again since.

    Refusals live in the memory of one process; what they say stands in status until the next answer.
    """
    return reason in set(BlockedReason) and untried(snapshot, pods, replicas)


def untried(snapshot: Snapshot, pods: JobPods, replicas: Replicas) -> bool:
    """Return whether something is missing, and this operator has heard no refusal yet."""
    return (
        not snapshot.blocked_writes
        and snapshot.job.status.observed_generation == snapshot.job.generation
        and (
            snapshot.service is None
            or any(replica not in pods.owned and replica not in replicas.completed for replica in replicas.records)
        )
    )
