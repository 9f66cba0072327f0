"""Objects and their history: one counter of revisions for everything, as in etcd."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.support.apiserver.kinds import Kind, Object

Key = tuple[str, str]
"""Namespace (empty for cluster-scoped kinds) and name."""


class Happening(StrEnum):
    """What a commit did to an object; the values are the words of the watch protocol."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Commit:
    """One change. `object` is the state after it, for DELETED the last state."""

    revision: int
    happening: Happening
    kind: Kind
    key: Key
    object: Object
    previous: Object | None


class Compacted(Exception):  # noqa: N818 - a fact about the history, told to the caller
    """The history does not reach back to that revision."""


class Store:
    """All objects. Single-threaded: whoever calls `put` and `remove` is alone."""

    def __init__(self) -> None:
        """An empty store; revisions begin at 1, as they do in a new etcd."""
        self.revision = 1
        self.compacted = 0
        self._objects: dict[Kind, dict[Key, Object]] = defaultdict(dict)
        self._history: list[Commit] = []
        self._listeners: list[Callable[[Commit], None]] = []

    def listen(self, listener: Callable[[Commit], None]) -> Callable[[], None]:
        """Have `listener` called within every commit; the answer ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def get(self, kind: Kind, key: Key) -> Object | None:
        """The current state of one object."""
        return self._objects[kind].get(key)

    def items(self, kind: Kind, namespace: str | None = None) -> list[tuple[Key, Object]]:
        """Current objects in the order of their keys; namespace None or empty = all."""
        objects = self._objects[kind]
        return [(key, objects[key]) for key in sorted(objects) if not namespace or key[0] == namespace]

    def everything(self) -> Iterable[tuple[Kind, Key, Object]]:
        """Every object of every kind."""
        for kind, objects in list(self._objects.items()):
            for key in sorted(objects):
                yield kind, key, objects[key]

    def put(self, kind: Kind, key: Key, obj: Object) -> Object:
        """Create or replace; the answer carries its new resourceVersion."""
        previous = self._objects[kind].get(key)
        self.revision += 1
        stored = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}
        self._objects[kind][key] = stored
        happening = Happening.ADDED if previous is None else Happening.MODIFIED
        self._tell(Commit(self.revision, happening, kind, key, stored, previous))
        return stored

    def remove(self, kind: Kind, key: Key) -> Object:
        """Delete; the answer is the last state, at the revision of the deletion."""
        previous = self._objects[kind].pop(key)
        self.revision += 1
        last = {**previous, "metadata": {**previous["metadata"], "resourceVersion": str(self.revision)}}
        self._tell(Commit(self.revision, Happening.DELETED, kind, key, last, previous))
        return last

    def _tell(self, commit: Commit) -> None:
        self._history.append(commit)
        for listener in list(self._listeners):
            listener(commit)

    def since(self, kind: Kind, revision: int) -> list[Commit]:
        """Commits after `revision`; raises Compacted if some of them are forgotten."""
        if revision < self.compacted:
            raise Compacted
        return [commit for commit in self._history if commit.revision > revision and commit.kind == kind]

    def at(self, kind: Kind, revision: int) -> dict[Key, Object]:
        """The objects of a kind as they were at `revision`; raises Compacted."""
        past = dict(self._objects[kind])
        for commit in reversed(self.since(kind, revision)):
            if commit.previous is None:
                past.pop(commit.key, None)
            else:
                past[commit.key] = commit.previous
        return past

    def copy(self) -> Store:
        """The same objects in a store of their own, without history or listeners."""
        other = Store()
        other.revision = other.compacted = self.revision
        for kind, objects in self._objects.items():
            other._objects[kind] = dict(objects)
        return other

    def compact(self) -> None:
        """Forget the history: every older resourceVersion is answered with 410 from now on."""
        self.compacted = self.revision
        self._history.clear()
