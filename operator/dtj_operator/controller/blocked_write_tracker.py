"""Refused writes of all jobs, remembered until they succeed.

In memory only: after a restart the first try says the same again. When one is tried again is
decided in `reconcile.state.blocked_writes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.reconcile.state.blocked_writes import BlockedReason, BlockedWrite, refused, too_early

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from dtj_operator.cache.namespaced_name import NamespacedName
    from dtj_operator.kube.errors import Refused


def classify(refusal: Refused) -> BlockedReason:
    """The reason for which a creation was refused."""
    if refusal.invalid:
        return BlockedReason.INVALID
    if refusal.namespace_terminating:
        return BlockedReason.NAMESPACE_TERMINATING
    if refusal.quota:
        return BlockedReason.QUOTA_EXCEEDED
    return BlockedReason.POD_REFUSED


class Ledger:
    """The blocked writes of all jobs."""

    def __init__(self) -> None:
        self._blocked_writes: dict[NamespacedName, tuple[str, dict[str, BlockedWrite]]] = {}
        """By job, and only for the job of that UID: the next one of its name inherits nothing."""

    def of(self, key: NamespacedName, uid: str) -> tuple[BlockedWrite, ...]:
        """For the snapshot, in order of their targets' names."""
        job, blocked_writes = self._blocked_writes.get(key, ("", {}))
        return tuple(blocked_writes[target] for target in sorted(blocked_writes)) if job == uid else ()

    def note(
        self,
        key: NamespacedName,
        uid: str,
        kind: BlockedReason,
        target: str,
        message: str,
        generation: int,
        now: datetime,
    ) -> bool:
        """A write was refused. Returns whether that is news to people (another kind or another message)."""
        job, blocked_writes = self._blocked_writes.get(key, ("", {}))
        if job != uid:
            blocked_writes = {}
            self._blocked_writes[key] = uid, blocked_writes
        before = blocked_writes.get(target)
        blocked_writes[target] = refused(kind, target, message, generation=generation, now=now, before=before)
        return before is None or (before.kind, before.message) != (kind, message)

    def clear(self, key: NamespacedName, uid: str, target: str) -> bool:
        """That write has succeeded. Returns whether it had been blocked."""
        job, blocked_writes = self._blocked_writes.get(key, ("", {}))
        if job != uid or target not in blocked_writes:
            return False
        del blocked_writes[target]
        if not blocked_writes:
            del self._blocked_writes[key]
        return True

    def prune(self, key: NamespacedName, uid: str, wanted: Collection[str], now: datetime) -> bool:
        """Forget what may be tried by now and is no longer wanted. Returns whether anything was forgotten."""
        blocked_writes = self.of(key, uid)
        over = [
            blocked.target
            for blocked in blocked_writes
            if blocked.target not in wanted and not too_early(blocked_writes, blocked.target, blocked.generation, now)
        ]
        for target in over:
            self.clear(key, uid, target)
        return bool(over)

    def forget(self, key: NamespacedName) -> None:
        """The job is gone."""
        self._blocked_writes.pop(key, None)
