"""The garbage collector, by owner references, and the namespace controller.

They act with a delay, as the real ones do; until then orphans are visible.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.support.apiserver.errors import Refusal
from tests.support.apiserver.kinds import NAMESPACES
from tests.support.apiserver.registry import Deletion
from tests.support.apiserver.storage import EventType

if TYPE_CHECKING:
    from tests.support.apiserver.kinds import Kind, Object
    from tests.support.apiserver.registry import Registry
    from tests.support.apiserver.storage import Commit, Key


class GarbageCollector:
    """A controller that deletes objects without owners, and empties terminating namespaces."""

    def __init__(self, registry: Registry, delay_seconds: float) -> None:
        """Sweep `delay_seconds` after each commit that could create garbage, unless `paused`."""
        self.registry = registry
        self.delay_seconds = delay_seconds
        self.paused = False
        self._due: asyncio.TimerHandle | None = None
        self._stop_listening = registry.store.listen(self._notice)

    def stop(self) -> None:
        """Stop sweeping."""
        self._stop_listening()
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _notice(self, commit: Commit) -> None:
        metadata = commit.object["metadata"]
        gone = commit.event_type == EventType.DELETED
        going = commit.event_type == EventType.MODIFIED and metadata.get("deletionTimestamp")
        orphan = commit.event_type == EventType.ADDED and metadata.get("ownerReferences")
        if not (gone or going or orphan) or self._due is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._due = loop.call_later(self.delay_seconds, self._sweep_when_due)

    def _sweep_when_due(self) -> None:
        self._due = None
        if not self.paused:
            self.sweep()

    def sweep(self) -> None:
        """Check all objects once."""
        present = {obj["metadata"]["uid"] for _, _, obj in self.registry.store.everything()}
        for kind, key, obj in list(self.registry.store.everything()):
            owners = obj["metadata"].get("ownerReferences") or []
            if owners and not any(owner["uid"] in present for owner in owners):
                self._delete(kind, key, obj)
            elif obj["metadata"].get("deletionTimestamp"):
                self._finish(kind, key, obj)

    def _delete(self, kind: Kind, key: Key, obj: Object) -> None:
        if obj["metadata"].get("deletionTimestamp"):
            return
        try:
            self.registry.delete(kind, key[0], key[1], Deletion(uid=obj["metadata"]["uid"]))
        except Refusal:
            return

    def _finish(self, kind: Kind, key: Key, obj: Object) -> None:
        if kind == NAMESPACES:
            self._empty_namespace(key)
            return
        finalizers = obj["metadata"].get("finalizers") or []
        if "foregroundDeletion" in finalizers:
            dependents = self._dependents(obj, blocking=True)
            for dependent_kind, dependent_key, dependent in self._dependents(obj):
                self._delete(dependent_kind, dependent_key, dependent)
            if not dependents:
                self._drop_finalizer(kind, key, obj, "foregroundDeletion")
        elif "orphan" in finalizers:
            for dependent_kind, dependent_key, dependent in self._dependents(obj):
                kept = [
                    owner
                    for owner in dependent["metadata"]["ownerReferences"]
                    if owner["uid"] != obj["metadata"]["uid"]
                ]
                metadata = {**dependent["metadata"], "ownerReferences": kept}
                self.registry.store.put(dependent_kind, dependent_key, {**dependent, "metadata": metadata})
            self._drop_finalizer(kind, key, obj, "orphan")

    def _dependents(self, obj: Object, *, blocking: bool = False) -> list[tuple[Kind, Key, Object]]:
        uid = obj["metadata"]["uid"]
        return [
            (kind, key, other)
            for kind, key, other in self.registry.store.everything()
            for owner in other["metadata"].get("ownerReferences") or []
            if owner["uid"] == uid and (owner.get("blockOwnerDeletion") or not blocking)
        ]

    def _drop_finalizer(self, kind: Kind, key: Key, obj: Object, finalizer: str) -> None:
        left = [name for name in obj["metadata"]["finalizers"] if name != finalizer]
        body = {**obj, "metadata": {**obj["metadata"], "finalizers": left}}
        self.registry.update(kind, key[0], key[1], body)

    def _empty_namespace(self, key: Key) -> None:
        namespace = key[1]
        inside = [(kind, place, obj) for kind, place, obj in self.registry.store.everything() if place[0] == namespace]
        for kind, place, obj in inside:
            self._delete(kind, place, obj)
        if not any(place[0] == namespace for _, place, _ in self.registry.store.everything()):
            self.registry.store.remove(NAMESPACES, key)
