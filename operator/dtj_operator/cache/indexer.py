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
    watched: bool
    """Whether the watch tells when it changes."""
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
        watched: Callable[[dict[str, Any]], bool] = lambda _raw: True,
    ) -> None:
        """`transform` keeps what is needed of an object, `key` names its job: None for objects that are not ours.

        `on_change(key)` is called when an object appears, disappears, or `changed(old, new)` says that it matters.
        `watched` says whether the selector of the watch finds the object.
        """
        self._transform = transform
        self._key = key
        self._on_change = on_change
        self._changed = changed
        self._watched = watched
        self._entries: dict[NamespacedName, dict[str, Entry[T]]] = {}
        """By job, then by the object's name."""
        self._places: dict[str, tuple[NamespacedName, str]] = {}
        """By UID: under which job and name the object is. Its job may change, if a label says which that is."""
        self._deleted: OrderedDict[str, int] = OrderedDict()
        """By UID, the resourceVersion up to which events of that object are late."""

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self._places)

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

    def list_unwatched(self) -> list[tuple[NamespacedName, str, str]]:
        """Return job, name and UID of the objects of which the watch does not tell."""
        return [
            (key, name, entry.uid)
            for key, entries in self._entries.items()
            for name, entry in entries.items()
            if not entry.watched
        ]

    def is_known(self, raw: dict[str, Any]) -> bool:
        """Tell from an object's metadata alone whether this version of it, or a later one, has been taken in."""
        metadata = raw["metadata"]
        version = parse_resource_version(metadata["resourceVersion"])
        entry = self._find(metadata["uid"])
        if entry is not None:
            return entry.resource_version >= version
        return self._key(raw) is None or version <= self._deleted.get(metadata["uid"], -1)

    def upsert(self, raw: dict[str, Any]) -> None:
        """Take in an object that exists, or did at its resourceVersion."""
        key, metadata = self._key(raw), raw["metadata"]
        uid, name = metadata["uid"], metadata["name"]
        resource_version = parse_resource_version(metadata["resourceVersion"])
        known = self._find(uid)
        if resource_version <= self._deleted.get(uid, -1) or (known and known.resource_version >= resource_version):
            return
        if key is None:
            if known is not None:
                self.remove(uid, at=resource_version)
            return
        if known is not None and self._places[uid] != (key, name):
            self._drop(uid)
        entries = self._entries.setdefault(key, {})
        old = entries.get(name)
        if old is not None and old.resource_version >= resource_version:
            return
        if old is not None and old.uid != uid:
            del self._places[old.uid]
        entry = Entry(uid, resource_version, self._watched(raw), self._transform(raw))
        entries[name] = entry
        self._places[uid] = key, name
        if old is None or old.uid != uid or self._changed(old.value, entry.value):
            self._on_change(key)

    def restore(self, raw: dict[str, Any]) -> None:
        """Take in an object that has just been read, though the watch has called it deleted: it only lost its label."""
        self._deleted.pop(raw["metadata"]["uid"], None)
        self.upsert(raw)

    def delete(self, raw: dict[str, Any]) -> None:
        """Remove an object that a watch calls deleted: it is, or the watch does not see it without its label."""
        metadata = raw["metadata"]
        self.remove(metadata["uid"], at=parse_resource_version(metadata["resourceVersion"]))

    def remove(self, uid: str, *, at: int = ANY_VERSION) -> None:
        """Remove the object with this UID; only a resourceVersion above `at` can bring it back."""
        self._deleted[uid] = at
        if len(self._deleted) > MAX_TOMBSTONES:
            self._deleted.popitem(last=False)
        if uid in self._places:
            self._drop(uid)

    def remove_missing(self, namespace: str | None, uids: AbstractSet[str], resource_version: str) -> None:
        """Remove what a complete list of `namespace` (None: all) at that resourceVersion does not contain.

        What is missing there has been deleted unseen, unless it is newer than the list, or the list cannot contain it.
        """
        at = parse_resource_version(resource_version)
        missing = [
            entry.uid
            for key, entries in self._entries.items()
            if namespace is None or key.namespace == namespace
            for entry in entries.values()
            if entry.uid not in uids and entry.watched and entry.resource_version <= at
        ]
        for uid in missing:
            self.remove(uid, at=at)

    def _find(self, uid: str) -> Entry[T] | None:
        place = self._places.get(uid)
        return self.get(*place) if place else None

    def _drop(self, uid: str) -> None:
        key, name = self._places.pop(uid)
        entries = self._entries[key]
        del entries[name]
        if not entries:
            del self._entries[key]
        self._on_change(key)
