"""BlockedWriteTracker: refused writes of all jobs, remembered until they succeed.

They are kept in memory only: after a restart the first attempt is refused again. When a write is tried again is decided
in `reconcile.state.blocked_writes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.reconcile.state.blocked_writes import BlockedReason, BlockedWrite, record_refusal, too_early

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from dtj_operator.cache.namespaced_name import NamespacedName
    from dtj_operator.kube.errors import Refused


def blocked_reason(refusal: Refused) -> BlockedReason:
    """Return the reason of a refused creation."""
    if refusal.invalid:
        return BlockedReason.INVALID
    if refusal.namespace_terminating:
        return BlockedReason.NAMESPACE_TERMINATING
    if refusal.quota:
        return BlockedReason.QUOTA_EXCEEDED
    return BlockedReason.POD_REFUSED


class BlockedWriteTracker:
    """The blocked writes of all jobs."""

    def __init__(self) -> None:
        self._jobs: dict[NamespacedName, tuple[str, dict[str, BlockedWrite]]] = {}
        """By job, with the UID of the job: the next job of this name inherits nothing."""

    def of(self, key: NamespacedName, uid: str) -> tuple[BlockedWrite, ...]:
        """Return the blocked writes of a job for its snapshot, ordered by the names of their objects."""
        job, blocked_writes = self._jobs.get(key, ("", {}))
        return tuple(blocked_writes[target] for target in sorted(blocked_writes)) if job == uid else ()

    def record(
        self,
        key: NamespacedName,
        uid: str,
        kind: BlockedReason,
        target: str,
        message: str,
        generation: int,
        now: datetime,
    ) -> bool:
        """Remember a refused write. Returns whether it has another reason or message than before."""
        job, blocked_writes = self._jobs.get(key, ("", {}))
        if job != uid:
            blocked_writes = {}
            self._jobs[key] = uid, blocked_writes
        before = blocked_writes.get(target)
        blocked_writes[target] = record_refusal(kind, target, message, generation=generation, now=now, before=before)
        return before is None or (before.kind, before.message) != (kind, message)

    def clear(self, key: NamespacedName, uid: str, target: str) -> bool:
        """Forget a write that has succeeded. Returns whether it had been blocked."""
        job, blocked_writes = self._jobs.get(key, ("", {}))
        if job != uid or target not in blocked_writes:
            return False
        del blocked_writes[target]
        if not blocked_writes:
            del self._jobs[key]
        return True

    def prune(self, key: NamespacedName, uid: str, desired: Collection[str], now: datetime) -> bool:
        """Forget writes that may be tried again and are no longer desired. Returns whether there were any."""
        blocked_writes = self.of(key, uid)
        obsolete = [
            blocked.target
            for blocked in blocked_writes
            if blocked.target not in desired and not too_early(blocked_writes, blocked.target, blocked.generation, now)
        ]
        for target in obsolete:
            self.clear(key, uid, target)
        return bool(obsolete)

    def forget(self, key: NamespacedName) -> None:
        """Forget a job that is gone."""
        self._jobs.pop(key, None)
