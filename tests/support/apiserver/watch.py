"""Watch streams: from a revision on, with bookmarks, and with every way a stream can mislead.

`Views` is the server's watch cache. It can be frozen per kind, slowed down, made to lose events, or broken off.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.apiserver.errors import expired
from tests.support.apiserver.storage import Commit, Compacted, Happening

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support.apiserver.kinds import Kind, Object
    from tests.support.apiserver.storage import Key, Store

INITIAL_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class Ask:
    """What a watch asks for."""

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
    ask: Ask
    queue: asyncio.Queue[Commit | Object | None]
    """Commits, in-stream objects (errors), or None = break off."""


@dataclass(slots=True)
class Views:
    """What the watch cache shows of the store."""

    store: Store
    bookmark_seconds: float = 60.0
    frozen: dict[Kind, int] = field(default_factory=dict)
    delays: dict[Kind, float] = field(default_factory=dict)
    _losses: list[Callable[[Commit], bool]] = field(default_factory=list)
    _streams: list[_Stream] = field(default_factory=list)
    _held: dict[Kind, list[Commit]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Follow the store."""
        self.store.listen(self._deliver)

    # trouble -----------------------------------------------------------------------------

    def freeze(self, kind: Kind, back: int = 0) -> None:
        """From now on the watch cache of this kind shows one past moment: in watches, and in lists that allow it.

        As in the real server, reads of one object and lists without a resourceVersion stay true.
        `back`: how many revisions of the store before the present one.
        """
        self.frozen[kind] = max(self.store.revision - back, self.store.compacted)
        self._held[kind] = self.store.since(kind, self.frozen[kind])

    def thaw(self, kind: Kind) -> None:
        """Lists are true again; streams get what they missed."""
        self.frozen.pop(kind, None)
        for commit in self._held.pop(kind, []):
            self._deliver(commit)

    def drop_events(self, lost: Callable[[Commit], bool]) -> Callable[[], None]:
        """Streams never see the commits for which `lost` is true; the answer ends that."""
        self._losses.append(lost)
        return lambda: self._losses.remove(lost)

    def delay(self, kind: Kind, seconds: float) -> None:
        """Deliver events of this kind so much later; 0 = at once again."""
        self.delays[kind] = seconds

    def break_off(self, kind: Kind | None = None) -> None:
        """End the streams of one kind (None = all), as a restarting API server does."""
        for stream in self._streams:
            if kind in (None, stream.ask.kind):
                stream.queue.put_nowait(None)

    def error(self, kind: Kind | None, status: Object) -> None:
        """Send an in-stream ERROR with this metav1.Status and end those streams."""
        for stream in self._streams:
            if kind in (None, stream.ask.kind):
                stream.queue.put_nowait({"type": "ERROR", "object": status})

    @property
    def open(self) -> int:
        """Streams that are open."""
        return len(self._streams)

    def watching(self, kind: Kind) -> int:
        """Open streams of one kind."""
        return sum(stream.ask.kind == kind for stream in self._streams)

    # reading -----------------------------------------------------------------------------

    def revision(self, kind: Kind) -> int:
        """The revision that the watch cache of this kind shows."""
        return self.frozen.get(kind, self.store.revision)

    def objects(self, kind: Kind, revision: int | None = None) -> dict[Key, Object]:
        """What a list shows, in the order of keys; raises a 410 for a revision that was compacted."""
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
        streams = [stream for stream in self._streams if stream.ask.kind == commit.kind]
        if seconds:
            loop = asyncio.get_running_loop()
            for stream in streams:
                loop.call_later(seconds, stream.queue.put_nowait, commit)
        else:
            for stream in streams:
                stream.queue.put_nowait(commit)

    async def watch(self, ask: Ask) -> AsyncIterator[bytes]:
        """Lines of JSON until the time is over or the stream breaks."""
        stream = _Stream(ask, asyncio.Queue())
        try:
            backlog = self._backlog(stream)
        except Compacted:
            status = expired(f"too old resource version: {ask.revision} ({self.store.compacted})").status()
            yield _line("ERROR", status)
            return
        self._streams.append(stream)
        try:
            seen = ask.revision or 0
            for line, seen in backlog:  # noqa: B007 - the last one counts
                yield line
            async for line in self._live(stream, seen):
                yield line
        finally:
            self._streams.remove(stream)

    def _backlog(self, stream: _Stream) -> list[tuple[bytes, int]]:
        ask, now = stream.ask, self.revision(stream.ask.kind)
        lines: list[tuple[bytes, int]] = []
        if ask.revision is None:
            for (namespace, _), obj in self.objects(ask.kind).items():
                if ask.namespace in ("", namespace) and ask.selects(obj):
                    lines.append((_line("ADDED", obj), now))
            if ask.initial_events:
                lines.append((_bookmark(ask.kind, now, {INITIAL_END: "true"}), now))
            return lines
        for commit in self.store.since(ask.kind, ask.revision):
            line = _translate(ask, commit)
            if line is not None and commit.revision <= now and not any(lost(commit) for lost in self._losses):
                lines.append((line, commit.revision))
        return lines

    async def _live(self, stream: _Stream, seen: int) -> AsyncIterator[bytes]:
        ask, loop = stream.ask, asyncio.get_running_loop()
        ends = loop.time() + ask.seconds
        bookmark_at = loop.time() + self.bookmark_seconds
        while True:
            until = min(ends, bookmark_at) if ask.bookmarks else ends
            try:
                async with asyncio.timeout_at(until):
                    item = await stream.queue.get()
            except TimeoutError:
                if ask.bookmarks:
                    yield _bookmark(ask.kind, max(seen, self._bookmark_revision(stream)), {})
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
                line = _translate(ask, item)
                if line is not None:
                    yield line

    def _bookmark_revision(self, stream: _Stream) -> int:
        kind = stream.ask.kind
        return 0 if self.delays.get(kind) or stream.queue.qsize() else self.revision(kind)


def _translate(ask: Ask, commit: Commit) -> bytes | None:
    """The event as this watch sees it: objects enter and leave its selection."""
    if ask.namespace not in ("", commit.key[0]):
        return None
    was = commit.previous is not None and ask.selects(commit.previous)
    stays = commit.happening != Happening.DELETED and ask.selects(commit.object)
    if stays:
        return _line("MODIFIED" if was else "ADDED", commit.object)
    if not was:
        return None
    if commit.happening == Happening.DELETED:
        return _line("DELETED", commit.object)
    # What leaves the selection is told as it was, at the version at which it left.
    before = commit.previous or {}
    version = commit.object["metadata"]["resourceVersion"]
    return _line("DELETED", {**before, "metadata": {**before["metadata"], "resourceVersion": version}})


def _line(happening: str, obj: Object) -> bytes:
    return json.dumps({"type": happening, "object": obj}).encode() + b"\n"


def _bookmark(kind: Kind, revision: int, annotations: dict[str, str]) -> bytes:
    metadata: Object = {"resourceVersion": str(revision), "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = annotations
    return _line("BOOKMARK", {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata})
