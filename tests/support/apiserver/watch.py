"""Watch streams from a revision on, with bookmarks, and with faults.

The server's watch cache can be frozen per kind, delayed, made to lose events, and its streams broken.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.apiserver.errors import expired
from tests.support.apiserver.storage import Commit, Compacted, EventType

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support.apiserver.kinds import Kind, Object
    from tests.support.apiserver.storage import Key, Storage

INITIAL_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """The parameters of a watch."""

    kind: Kind
    namespace: str
    selects: Callable[[Object], bool]
    revision: int | None
    """Events after this one; None = first the present state as ADDED events."""
    seconds: float
    bookmarks: bool
    initial_events: bool = False
    """End the present state with a marked bookmark (streaming lists)."""


@dataclass(slots=True, eq=False)
class _Stream:
    request: WatchRequest
    queue: asyncio.Queue[Commit | Object | None]
    """Commits, in-stream objects (errors), or None = break off."""


@dataclass(slots=True)
class WatchCache:
    """The server's watch cache over its storage."""

    store: Storage
    bookmark_seconds: float = 60.0
    frozen: dict[Kind, int] = field(default_factory=dict)
    delays: dict[Kind, float] = field(default_factory=dict)
    _losses: list[Callable[[Commit], bool]] = field(default_factory=list)
    _streams: list[_Stream] = field(default_factory=list)
    _held: dict[Kind, list[Commit]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Follow the storage."""
        self.store.listen(self._deliver)

    # faults ------------------------------------------------------------------------------

    def freeze(self, kind: Kind, back: int = 0) -> None:
        """Freeze the watch cache of this kind at one revision, for watches and cached lists.

        As in the real server, reads of one object and lists without a resourceVersion are still consistent.
        `back`: how many revisions of the store before the present one.
        """
        self.frozen[kind] = max(self.store.revision - back, self.store.compacted)
        self._held[kind] = self.store.since(kind, self.frozen[kind])

    def thaw(self, kind: Kind) -> None:
        """Unfreeze lists and streams; streams get what they missed."""
        self.frozen.pop(kind, None)
        for commit in self._held.pop(kind, []):
            self._deliver(commit)

    def drop_events(self, lost: Callable[[Commit], bool]) -> Callable[[], None]:
        """Hide the commits for which `lost` is true from streams; the returned function ends that."""
        self._losses.append(lost)
        return lambda: self._losses.remove(lost)

    def delay(self, kind: Kind, seconds: float) -> None:
        """Delay events of this kind by `seconds`; 0 = no delay."""
        self.delays[kind] = seconds

    def break_off(self, kind: Kind | None = None) -> None:
        """End the streams of one kind (None = all), as a restarting API server does."""
        for stream in self._streams:
            if kind in (None, stream.request.kind):
                stream.queue.put_nowait(None)

    def error(self, kind: Kind | None, status: Object) -> None:
        """Send an in-stream ERROR with this metav1.Status and end those streams."""
        for stream in self._streams:
            if kind in (None, stream.request.kind):
                stream.queue.put_nowait({"type": "ERROR", "object": status})

    @property
    def open(self) -> int:
        """Return the number of open streams."""
        return len(self._streams)

    def watching(self, kind: Kind) -> int:
        """Return the number of open streams of one kind."""
        return sum(stream.request.kind == kind for stream in self._streams)

    # reading -----------------------------------------------------------------------------

    def revision(self, kind: Kind) -> int:
        """Return the revision that the watch cache of this kind shows."""
        return self.frozen.get(kind, self.store.revision)

    def objects(self, kind: Kind, revision: int | None = None) -> dict[Key, Object]:
        """Return the objects of a list in the order of keys; raises a 410 for a compacted revision."""
        wanted = self.revision(kind) if revision is None else revision
        try:
            found = self.store.at(kind, wanted) if wanted < self.store.revision else dict(self.store.items(kind))
        except Compacted:
            raise expired(
                f"The provided resource version {wanted} is too old: older than {self.store.compacted}"
            ) from None
        return dict(sorted(found.items()))

    def _deliver(self, commit: Commit) -> None:
        if commit.kind in self._held:
            self._held[commit.kind].append(commit)
            return
        if any(lost(commit) for lost in self._losses):
            return
        seconds = self.delays.get(commit.kind, 0.0)
        streams = [stream for stream in self._streams if stream.request.kind == commit.kind]
        if seconds:
            loop = asyncio.get_running_loop()
            for stream in streams:
                loop.call_later(seconds, stream.queue.put_nowait, commit)
        else:
            for stream in streams:
                stream.queue.put_nowait(commit)

    async def watch(self, request: WatchRequest) -> AsyncIterator[bytes]:
        """Yield lines of JSON until the time is over or the stream breaks."""
        stream = _Stream(request, asyncio.Queue())
        try:
            backlog = self._backlog(stream)
        except Compacted:
            status = expired(f"too old resource version: {request.revision} ({self.store.compacted})").status()
            yield _line("ERROR", status)
            return
        self._streams.append(stream)
        try:
            seen = request.revision or 0
            for line, seen in backlog:  # noqa: B007 - the last one counts
                yield line
            async for line in self._live(stream, seen):
                yield line
        finally:
            self._streams.remove(stream)

    def _backlog(self, stream: _Stream) -> list[tuple[bytes, int]]:
        request, now = stream.request, self.revision(stream.request.kind)
        lines: list[tuple[bytes, int]] = []
        if request.revision is None:
            for (namespace, _), obj in self.objects(request.kind).items():
                if request.namespace in ("", namespace) and request.selects(obj):
                    lines.append((_line("ADDED", obj), now))
            if request.initial_events:
                lines.append((_bookmark(request.kind, now, {INITIAL_END: "true"}), now))
            return lines
        for commit in self.store.since(request.kind, request.revision):
            line = _translate(request, commit)
            if line is not None and commit.revision <= now and not any(lost(commit) for lost in self._losses):
                lines.append((line, commit.revision))
        return lines

    async def _live(self, stream: _Stream, seen: int) -> AsyncIterator[bytes]:
        request, loop = stream.request, asyncio.get_running_loop()
        ends = loop.time() + request.seconds
        bookmark_at = loop.time() + self.bookmark_seconds
        while True:
            until = min(ends, bookmark_at) if request.bookmarks else ends
            try:
                async with asyncio.timeout_at(until):
                    item = await stream.queue.get()
            except TimeoutError:
                if request.bookmarks:
                    yield _bookmark(request.kind, max(seen, self._bookmark_revision(stream)), {})
                    bookmark_at = loop.time() + self.bookmark_seconds
                if loop.time() >= ends:
                    return
                continue
            if item is None:
                return
            if isinstance(item, dict):
                yield json.dumps(item).encode() + b"\n"
                return
            if item.revision > seen:
                seen = item.revision
                line = _translate(request, item)
                if line is not None:
                    yield line

    def _bookmark_revision(self, stream: _Stream) -> int:
        kind = stream.request.kind
        return 0 if self.delays.get(kind) or stream.queue.qsize() else self.revision(kind)


def _translate(request: WatchRequest, commit: Commit) -> bytes | None:
    """Translate a commit for this watch: objects enter and leave its selection."""
    if request.namespace not in ("", commit.key[0]):
        return None
    was = commit.previous is not None and request.selects(commit.previous)
    stays = commit.event_type != EventType.DELETED and request.selects(commit.object)
    if stays:
        return _line("MODIFIED" if was else "ADDED", commit.object)
    if not was:
        return None
    if commit.event_type == EventType.DELETED:
        return _line("DELETED", commit.object)
    # An object that leaves the selection is sent in its last state, with the version at which it left.
    before = commit.previous or {}
    version = commit.object["metadata"]["resourceVersion"]
    return _line("DELETED", {**before, "metadata": {**before["metadata"], "resourceVersion": version}})


def _line(event_type: str, obj: Object) -> bytes:
    return json.dumps({"type": event_type, "object": obj}).encode() + b"\n"


def _bookmark(kind: Kind, revision: int, annotations: dict[str, str]) -> bytes:
    metadata: Object = {"resourceVersion": str(revision), "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = annotations
    return _line("BOOKMARK", {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata})
