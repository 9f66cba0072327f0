"""What one namespace of a real server holds, commit by commit, as its watches tell."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from tests.support.apiserver import Commit, Happening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.support.apiserver import Object
    from tests.support.apiserver.kinds import Kind
    from tests.support.apiserver.storage import Key


class Mirror:
    """A few milliseconds behind the server. The commits of one kind come in order, each one of them."""

    def __init__(self) -> None:
        """Empty."""
        self.revision = 0
        """The newest of any kind."""
        self._objects: dict[Kind, dict[Key, Object]] = defaultdict(dict)
        self._revisions: dict[Kind, int] = defaultdict(int)
        self._listeners: list[Callable[[Commit], None]] = []
        self._news = asyncio.Event()

    def get(self, kind: Kind, key: Key) -> Object | None:
        """One object."""
        return self._objects[kind].get(key)

    def items(self, kind: Kind, namespace: str) -> list[Object]:
        """Objects in the order of their keys; namespace empty = all."""
        objects = self._objects[kind]
        return [objects[key] for key in sorted(objects) if namespace in {"", key[0]}]

    def listen(self, listener: Callable[[Commit], None]) -> Callable[[], None]:
        """Have `listener` called at every commit; the answer ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def seed(self, kind: Kind, objects: Iterable[Object]) -> None:
        """Objects that nobody will change."""
        for obj in objects:
            self._objects[kind][_key(obj)] = obj

    def tell(self, kind: Kind, event: Object) -> None:
        """One event of a watch."""
        commit = as_commit(kind, event, self._objects[kind].get(_key(event["object"])))
        self.revision = max(self.revision, commit.revision)
        self._revisions[kind] = commit.revision
        if commit.happening == Happening.DELETED:
            self._objects[kind].pop(commit.key, None)
        else:
            self._objects[kind][commit.key] = commit.object
        for listener in list(self._listeners):
            listener(commit)
        self._news.set()
        self._news = asyncio.Event()

    def seen(self, kind: Kind) -> int:
        """The revision up to which this kind has been told."""
        return self._revisions[kind]

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until something holds of what has been told."""
        while not reached():
            await self._news.wait()


def as_commit(kind: Kind, event: Object, previous: Object | None = None) -> Commit:
    """An ADDED, MODIFIED or DELETED event as a commit."""
    obj = event["object"]
    revision = int(obj["metadata"]["resourceVersion"])
    return Commit(revision, Happening(event["type"]), kind, _key(obj), obj, previous)


def _key(obj: Object) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
