"""Indexer: the newest version of every object of one kind, grouped by the job it belongs to."""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from dtj_operator.cache.namespaced_name import NamespacedName, parse_resource_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from collections.abc import Set as AbstractSet

MAX_TOMBSTONES = 20_000
"""UIDs of deleted objects that are remembered, so that a late response does not bring one back."""
ANY_VERSION = sys.maxsize
"""Above every resourceVersion."""

T = TypeVar("T")


class Entry(NamedTuple, Generic[T]):
    """One object: its identity, and what is kept of it."""

    uid: str
    resource_version: int
    value: T


class Indexer(Generic[T]):
    """The known objects of one kind. Events may come in any order and more than once.

    The server's responses to the operator's own writes are put here at once. The higher resourceVersion wins, so
    an object that is read after a write is never older than that write.
    """

    def __init__(
        self,
        *,
        transform: Callable[[dict[str, Any]], T],
        key: Callable[[dict[str, Any]], NamespacedName | None],
        on_change: Callable[[NamespacedName], None],
        changed: Callable[[T, T], bool],
    ) -> None:
        """`transform` keeps what is needed of an object, `key` names its job: None for objects that are not ours.

        `on_change(key)` is called when an object appears, disappears, or `changed(old, new)` says that it matters.
        """
        self._transform = transform
        self._key = key
        self._on_change = on_change
        self._changed = changed
        self._entries: dict[NamespacedName, dict[str, Entry[T]]] = {}
        """By job, then by the object's name."""
        self._deleted: OrderedDict[str, int] = OrderedDict()
        """By UID, the resourceVersion up to which events of that object are late."""

    def __len__(self) -> int:
        """Return the number of objects."""
        return sum(map(len, self._entries.values()))

    def list_keys(self) -> list[NamespacedName]:
        """Return the jobs that have an object here."""
        return list(self._entries)

    def values(self, key: NamespacedName) -> Iterator[T]:
        """Yield the objects of one job, in the order in which their names first appeared."""
        return (entry.value for entry in self._entries.get(key, {}).values())

    def get(self, key: NamespacedName, name: str) -> Entry[T] | None:
        """Return one object by its job and its name."""
        return self._entries.get(key, {}).get(name)

    def items(self) -> Iterator[tuple[NamespacedName, T]]:
        """Yield all objects, each with its job."""
        for key, entries in self._entries.items():
            for entry in entries.values():
                yield key, entry.value

    def is_known(self, raw: dict[str, Any]) -> bool:
        """Tell from an object's metadata alone whether this version of it, or a later one, has been taken in."""
        key, metadata = self._key(raw), raw["metadata"]
        version = parse_resource_version(metadata["resourceVersion"])
        entry = self.get(key, metadata["name"]) if key is not None else None
        if entry is not None and entry.uid == metadata["uid"]:
            return entry.resource_version >= version
        return key is None or version <= self._deleted.get(metadata["uid"], -1)

    def upsert(self, raw: dict[str, Any]) -> None:
        """Take in an object that exists, or did at its resourceVersion."""
        key = self._key(raw)
        if key is None:
            return
        metadata = raw["metadata"]
        uid = metadata["uid"]
        name = metadata["name"]
        resource_version = parse_resource_version(metadata["resourceVersion"])
        if resource_version <= self._deleted.get(uid, -1):
            return
        entries = self._entries.get(key)
        old = entries.get(name) if entries else None
        if old is not None and old.resource_version >= resource_version:
            return
        entry = Entry(uid, resource_version, self._transform(raw))
        if entries is None:
            self._entries[key] = {name: entry}
        else:
            entries[name] = entry
        if old is None or old.uid != uid or self._changed(old.value, entry.value):
            self._on_change(key)

    def delete(self, raw: dict[str, Any]) -> None:
        """Remove an object that a watch calls deleted."""
        key = self._key(raw)
        metadata = raw["metadata"]
        if key is not None:
            # Deleted, or invisible to the watch for as long as its label is missing.
            at = parse_resource_version(metadata["resourceVersion"])
            self.remove(key, metadata["name"], metadata["uid"], at=at)

    def remove(self, key: NamespacedName, name: str, uid: str, *, at: int = ANY_VERSION) -> None:
        """Remove the object with this UID; only a resourceVersion above `at` can bring it back."""
        self._deleted[uid] = at
        if len(self._deleted) > MAX_TOMBSTONES:
            self._deleted.popitem(last=False)
        entries = self._entries.get(key)
        entry = entries.get(name) if entries else None
        if entries is None or entry is None or entry.uid != uid:
            return
        del entries[name]
        if not entries:
            del self._entries[key]
        self._on_change(key)

    def remove_missing(self, namespace: str | None, uids: AbstractSet[str], resource_version: str) -> None:
        """Remove what a complete list of `namespace` (None: all) at that resourceVersion does not contain.

        What is missing there has been deleted unseen, unless it is newer than the list.
        """
        at = parse_resource_version(resource_version)
        missing = [
            (key, name, entry.uid)
            for key, entries in self._entries.items()
            if namespace is None or key.namespace == namespace
            for name, entry in entries.items()
            if entry.uid not in uids and entry.resource_version <= at
        ]
        for key, name, uid in missing:
            self.remove(key, name, uid, at=at)
