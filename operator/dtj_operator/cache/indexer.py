"""All objects of one kind that are known, newest incarnation and version only."""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from dtj_operator.cache.namespaced_name import Key, version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from collections.abc import Set as AbstractSet

TOMBSTONES = 20_000
"""UIDs of deleted objects that are remembered, so that a late answer does not bring one back."""
FOR_EVER = sys.maxsize
"""Above every resourceVersion."""

T = TypeVar("T")


class Held(NamedTuple, Generic[T]):
    """One object: its identity and the slim view of it."""

    uid: str
    version: int
    value: T


class Shelf(Generic[T]):
    """Keeps a view of every object, grouped by the job it belongs to.

    The server's answers to the operator's own writes are put here as well, at once: whichever
    resourceVersion is higher wins, so reading never goes back behind writing.
    """

    def __init__(
        self,
        *,
        view: Callable[[dict[str, Any]], T],
        key: Callable[[dict[str, Any]], Key | None],
        changed: Callable[[Key], None],
        matters: Callable[[T, T], bool],
    ) -> None:
        """`key` None: not one of ours. `matters(old, new)`: whether a change is worth another look."""
        self._view = view
        self._key = key
        self._changed = changed
        self._matters = matters
        self._groups: dict[Key, dict[str, Held[T]]] = {}
        self._gone: OrderedDict[str, int] = OrderedDict()
        """By UID: what is not newer than this is late news."""

    def __len__(self) -> int:
        """Objects held."""
        return sum(map(len, self._groups.values()))

    def jobs(self) -> list[Key]:
        """The jobs that something is known for."""
        return list(self._groups)

    def values(self, key: Key) -> Iterator[T]:
        """The objects of one job, in order of their names' first appearance."""
        return (held.value for held in self._groups.get(key, {}).values())

    def held(self, key: Key, name: str) -> Held[T] | None:
        """One object by name."""
        return self._groups.get(key, {}).get(name)

    def all(self) -> Iterator[tuple[Key, T]]:
        """Everything."""
        for key, group in self._groups.items():
            for held in group.values():
                yield key, held.value

    def upsert(self, raw: dict[str, Any]) -> None:
        """This object exists, or did at its resourceVersion; the order of calls does not matter."""
        key = self._key(raw)
        if key is None:
            return
        metadata = raw["metadata"]
        uid = metadata["uid"]
        name = metadata["name"]
        new = version(metadata["resourceVersion"])
        if new <= self._gone.get(uid, -1):
            return
        group = self._groups.get(key)
        old = group.get(name) if group else None
        if old is not None and old.version >= new:
            return
        held = Held(uid, new, self._view(raw))
        if group is None:
            self._groups[key] = {name: held}
        else:
            group[name] = held
        if old is None or old.uid != uid or self._matters(old.value, held.value):
            self._changed(key)

    def delete(self, raw: dict[str, Any]) -> None:
        """This incarnation is gone."""
        key = self._key(raw)
        metadata = raw["metadata"]
        if key is not None:
            # Gone, or out of the watch's sight for as long as a label is missing.
            self.remove(key, metadata["name"], metadata["uid"], at=version(metadata["resourceVersion"]))

    def remove(self, key: Key, name: str, uid: str, *, at: int = FOR_EVER) -> None:
        """This incarnation is gone; only what is newer than `at` can bring it back."""
        self._gone[uid] = at
        if len(self._gone) > TOMBSTONES:
            self._gone.popitem(last=False)
        group = self._groups.get(key)
        held = group.get(name) if group else None
        if group is None or held is None or held.uid != uid:
            return
        del group[name]
        if not group:
            del self._groups[key]
        self._changed(key)

    def retain(self, namespace: str | None, uids: AbstractSet[str], resource_version: str) -> None:
        """A complete list of `namespace` (None: all) at that resourceVersion held exactly `uids`.

        What is known but not among them has been deleted unseen, unless it is newer than the list.
        """
        at = version(resource_version)
        missing = [
            (key, name, held.uid)
            for key, group in self._groups.items()
            if namespace is None or key.namespace == namespace
            for name, held in group.items()
            if held.uid not in uids and held.version <= at
        ]
        for key, name, uid in missing:
            self.remove(key, name, uid, at=at)
