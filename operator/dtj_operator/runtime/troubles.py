"""Refused writes: what the server said, and when to try again.

Kept in memory only: after a restart the first try says the same again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.domain.snapshot import Trouble, TroubleKind
from dtj_operator.domain.troubles import RETRY_AFTER

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from dtj_operator.kube.errors import Refused
    from dtj_operator.runtime.source import Key

LONGEST_RETRY = timedelta(seconds=60)
ONE_TARGET_ONLY = frozenset({TroubleKind.NAME_TAKEN})
"""These stop one object; every other kind stops all creations of the job until it is tried again."""


@dataclass(slots=True)
class _Entry:
    trouble: Trouble
    pause: timedelta
    retry_at: datetime


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
        self._entries: dict[Key, dict[str, _Entry]] = {}

    def of(self, key: Key) -> tuple[Trouble, ...]:
        """For the snapshot, in order of their targets' names."""
        entries = self._entries.get(key)
        return tuple(entries[target].trouble for target in sorted(entries)) if entries else ()

    def note(self, key: Key, kind: TroubleKind, target: str, message: str, generation: int, now: datetime) -> bool:
        """A write was refused. Returns whether that is news to people (another kind or another message)."""
        entries = self._entries.setdefault(key, {})
        old = entries.get(target)
        same = old is not None and old.trouble.kind is kind
        # Never earlier than `decide` plans it, or a due entry would look like one that nobody wants.
        pause = max(RETRY_AFTER[kind], min(LONGEST_RETRY, old.pause * 2)) if old and same else RETRY_AFTER[kind]
        since = old.trouble.since if old is not None and same else now
        trouble = Trouble(kind, target, message, since, tried_at=now, generation=generation)
        entries[target] = _Entry(trouble, pause, now + pause)
        return old is None or (old.trouble.kind, old.trouble.message) != (kind, message)

    def clear(self, key: Key, target: str) -> bool:
        """That write has succeeded. Returns whether there had been trouble with it."""
        entries = self._entries.get(key)
        if entries is None or target not in entries:
            return False
        del entries[target]
        if not entries:
            del self._entries[key]
        return True

    def blocked(self, key: Key, target: str, generation: int, now: datetime) -> bool:
        """Whether this creation has to wait for a retry time. A new generation of the spec may try at once."""
        entries = self._entries.get(key)
        if entries is None:
            return False
        return any(
            entry.trouble.generation == generation and now < entry.retry_at
            for name, entry in entries.items()
            if name == target or entry.trouble.kind not in ONE_TARGET_ONLY
        )

    def prune(self, key: Key, wanted: Collection[str], now: datetime) -> bool:
        """Forget what is due and no longer wanted. Returns whether anything was forgotten."""
        entries = self._entries.get(key)
        if entries is None:
            return False
        over = [target for target, entry in entries.items() if target not in wanted and now >= entry.retry_at]
        for target in over:
            self.clear(key, target)
        return bool(over)

    def next_retry(self, key: Key) -> datetime | None:
        """When the next refused write may be tried again."""
        entries = self._entries.get(key)
        return min(entry.retry_at for entry in entries.values()) if entries else None

    def forget(self, key: Key) -> None:
        """The job is gone."""
        self._entries.pop(key, None)
