"""A mirror of one namespace of a real server, updated by its watches."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from tests.support.apiserver import Commit, EventType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.support.apiserver import Object
    from tests.support.apiserver.kinds import Kind
    from tests.support.apiserver.storage import Key


class Mirror:
    """The mirrored objects, a few milliseconds behind the server. The commits of one kind are complete and in order."""

    def __init__(self) -> None:
        """Create an empty mirror."""
        self.revision = 0
        """The newest revision of any kind."""
        self._objects: dict[Kind, dict[Key, Object]] = defaultdict(dict)
        self._revisions: dict[Kind, int] = defaultdict(int)
        self._listeners: list[Callable[[Commit], None]] = []
        self._news = asyncio.Event()

    def get(self, kind: Kind, key: Key) -> Object | None:
        """Return one object."""
        return self._objects[kind].get(key)

    def items(self, kind: Kind, namespace: str) -> list[Object]:
        """Return objects in the order of their keys; namespace empty = all."""
        objects = self._objects[kind]
        return [objects[key] for key in sorted(objects) if namespace in {"", key[0]}]

    def listen(self, listener: Callable[[Commit], None]) -> Callable[[], None]:
        """Call `listener` at every commit; the returned function removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def seed(self, kind: Kind, objects: Iterable[Object]) -> None:
        """Add objects that do not change."""
        for obj in objects:
            self._objects[kind][_key(obj)] = obj

    def tell(self, kind: Kind, event: Object) -> None:
        """Apply one event of a watch."""
        commit = as_commit(kind, event, self._objects[kind].get(_key(event["object"])))
        self.revision = max(self.revision, commit.revision)
        self._revisions[kind] = commit.revision
        if commit.event_type == EventType.DELETED:
            self._objects[kind].pop(commit.key, None)
        else:
            self._objects[kind][commit.key] = commit.object
        for listener in list(self._listeners):
            listener(commit)
        self._news.set()
        self._news = asyncio.Event()

    def seen(self, kind: Kind) -> int:
        """Return the newest revision of this kind."""
        return self._revisions[kind]

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until a condition on the mirrored objects holds."""
        while not reached():
            await self._news.wait()


def as_commit(kind: Kind, event: Object, previous: Object | None = None) -> Commit:
    """Return an ADDED, MODIFIED or DELETED event as a commit."""
    obj = event["object"]
    revision = int(obj["metadata"]["resourceVersion"])
    return Commit(revision, EventType(event["type"]), kind, _key(obj), obj, previous)


def _key(obj: Object) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
