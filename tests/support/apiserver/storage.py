"""Objects and their history, with one revision counter for all, as in etcd."""

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


class EventType(StrEnum):
    """What a commit did to an object; the values are those of the watch protocol."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Commit:
    """One change. `object` is the state after it, for DELETED the last state."""

    revision: int
    event_type: EventType
    kind: Kind
    key: Key
    object: Object
    previous: Object | None


class Compacted(Exception):  # noqa: N818 - a fact about the history, told to the caller
    """The history does not reach back to that revision."""


class Storage:
    """All objects. Not thread-safe."""

    def __init__(self) -> None:
        """Create an empty storage; revisions begin at 1, as in a new etcd."""
        self.revision = 1
        self.compacted = 0
        self._objects: dict[Kind, dict[Key, Object]] = defaultdict(dict)
        self._history: list[Commit] = []
        self._listeners: list[Callable[[Commit], None]] = []

    def listen(self, listener: Callable[[Commit], None]) -> Callable[[], None]:
        """Call `listener` within every commit; the returned function removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def get(self, kind: Kind, key: Key) -> Object | None:
        """Return the current state of one object."""
        return self._objects[kind].get(key)

    def items(self, kind: Kind, namespace: str | None = None) -> list[tuple[Key, Object]]:
        """Return the current objects in the order of their keys; namespace None or empty = all."""
        objects = self._objects[kind]
        return [(key, objects[key]) for key in sorted(objects) if not namespace or key[0] == namespace]

    def everything(self) -> Iterable[tuple[Kind, Key, Object]]:
        """Yield every object of every kind."""
        for kind, objects in list(self._objects.items()):
            for key in sorted(objects):
                yield kind, key, objects[key]

    def put(self, kind: Kind, key: Key, obj: Object) -> Object:
        """Create or replace an object; returns it with its new resourceVersion."""
        previous = self._objects[kind].get(key)
        self.revision += 1
        stored = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}
        self._objects[kind][key] = stored
        event_type = EventType.ADDED if previous is None else EventType.MODIFIED
        self._tell(Commit(self.revision, event_type, kind, key, stored, previous))
        return stored

    def remove(self, kind: Kind, key: Key) -> Object:
        """Delete an object; returns its last state, at the revision of the deletion."""
        previous = self._objects[kind].pop(key)
        self.revision += 1
        last = {**previous, "metadata": {**previous["metadata"], "resourceVersion": str(self.revision)}}
        self._tell(Commit(self.revision, EventType.DELETED, kind, key, last, previous))
        return last

    def _tell(self, commit: Commit) -> None:
        self._history.append(commit)
        for listener in list(self._listeners):
            listener(commit)

    def since(self, kind: Kind, revision: int) -> list[Commit]:
        """Return the commits after `revision`; raises Compacted if some of them were compacted."""
        if revision < self.compacted:
            raise Compacted
        return [commit for commit in self._history if commit.revision > revision and commit.kind == kind]

    def at(self, kind: Kind, revision: int) -> dict[Key, Object]:
        """Return the objects of a kind at `revision`; raises Compacted."""
        past = dict(self._objects[kind])
        for commit in reversed(self.since(kind, revision)):
            if commit.previous is None:
                past.pop(commit.key, None)
            else:
                past[commit.key] = commit.previous
        return past

    def copy(self) -> Storage:
        """Return a storage with the same objects, without history or listeners."""
        other = Storage()
        other.revision = other.compacted = self.revision
        for kind, objects in self._objects.items():
            other._objects[kind] = dict(objects)
        return other

    def compact(self) -> None:
        """Delete the history: every older resourceVersion is answered with 410 from now on."""
        self.compacted = self.revision
        self._history.clear()
