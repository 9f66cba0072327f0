"""Refused writes of all jobs, remembered until they succeed.

In memory only: after a restart the first try says the same again. When one is tried again is
decided in `domain.troubles`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.reconcile.state.blocked_writes import Trouble, TroubleKind, refused, too_early

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from dtj_operator.cache.namespaced_name import Key
    from dtj_operator.kube.errors import Refused


def classify(refusal: Refused) -> TroubleKind:
    """The kind of trouble that a refused creation is."""
    if refusal.invalid:
        return TroubleKind.INVALID
    if refusal.namespace_terminating:
        return TroubleKind.NAMESPACE_TERMINATING
    if refusal.quota:
        return TroubleKind.QUOTA_EXCEEDED
    return TroubleKind.POD_REFUSED


class Ledger:
    """The troubles of all jobs."""

    def __init__(self) -> None:
        self._troubles: dict[Key, tuple[str, dict[str, Trouble]]] = {}
        """By job, and only for the job of that UID: the next one of its name inherits nothing."""

    def of(self, key: Key, uid: str) -> tuple[Trouble, ...]:
        """For the snapshot, in order of their targets' names."""
        job, troubles = self._troubles.get(key, ("", {}))
        return tuple(troubles[target] for target in sorted(troubles)) if job == uid else ()

    def note(
        self, key: Key, uid: str, kind: TroubleKind, target: str, message: str, generation: int, now: datetime
    ) -> bool:
        """A write was refused. Returns whether that is news to people (another kind or another message)."""
        job, troubles = self._troubles.get(key, ("", {}))
        if job != uid:
            troubles = {}
            self._troubles[key] = uid, troubles
        before = troubles.get(target)
        troubles[target] = refused(kind, target, message, generation=generation, now=now, before=before)
        return before is None or (before.kind, before.message) != (kind, message)

    def clear(self, key: Key, uid: str, target: str) -> bool:
        """That write has succeeded. Returns whether there had been trouble with it."""
        job, troubles = self._troubles.get(key, ("", {}))
        if job != uid or target not in troubles:
            return False
        del troubles[target]
        if not troubles:
            del self._troubles[key]
        return True

    def prune(self, key: Key, uid: str, wanted: Collection[str], now: datetime) -> bool:
        """Forget what may be tried by now and is no longer wanted. Returns whether anything was forgotten."""
        troubles = self.of(key, uid)
        over = [
            trouble.target
            for trouble in troubles
            if trouble.target not in wanted and not too_early(troubles, trouble.target, trouble.generation, now)
        ]
        for target in over:
            self.clear(key, uid, target)
        return bool(over)

    def forget(self, key: Key) -> None:
        """The job is gone."""
        self._troubles.pop(key, None)
