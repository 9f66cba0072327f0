"""A proxy between the operator and a real API server: forwards requests, and injects faults on demand.

Its clients see a cluster whose only namespace is the one of this proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from aiohttp import web
from yarl import URL

from tests.support.apiserver.connections import ClientConnections, respond
from tests.support.apiserver.errors import Refusal, expired
from tests.support.apiserver.faults import ConnectionCut, Faults
from tests.support.apiserver.log import Log
from tests.support.apiserver.request_target import Target, decode, log_entry
from tests.support.realserver.mirror import as_commit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support.apiserver import Commit
    from tests.support.apiserver.kinds import Kind
    from tests.support.apiserver.log import Request
    from tests.support.realserver.real_cluster import RealCluster

PASSED_ON: Final = ("Accept", "Content-Type", "User-Agent")
PASSED_BACK: Final = ("Content-Type", "Retry-After")
ERRORS_FROM: Final = 300
WITHOUT_LIMIT: Final = aiohttp.ClientTimeout(total=None)


@dataclass(slots=True, eq=False)
class _Stream:
    """One watch that is open."""

    kind: Kind
    task: asyncio.Task[None]


@dataclass(slots=True)
class Proxy:
    """The handlers."""

    cluster: RealCluster
    upstream: aiohttp.ClientSession
    namespace: str
    connections: ClientConnections = field(default_factory=ClientConnections)
    faults: Faults = field(default_factory=Faults)
    log: Log = field(default_factory=Log)
    granted: set[str] = field(default_factory=set)
    """Tokens of clients; others get 401."""
    oldest: int = 0
    """Watches from older revisions get 410."""
    _streams: list[_Stream] = field(default_factory=list)
    _halted: dict[Kind, asyncio.Event] = field(default_factory=dict)
    """Kinds whose streams are stopped; set when they continue."""
    _losses: list[Callable[[Commit], bool]] = field(default_factory=list)

    # faults of streams --------------------------------------------------------------------

    def freeze(self, kind: Kind) -> None:
        """Stop the streams of this kind; lists and reads stay consistent."""
        self._halted.setdefault(kind, asyncio.Event())

    def thaw(self, kind: Kind) -> None:
        """Continue the streams; they get what they missed."""
        halted = self._halted.pop(kind, None)
        if halted is not None:
            halted.set()

    def drop_events(self, lost: Callable[[Commit], bool]) -> Callable[[], None]:
        """Hide the commits for which `lost` is true from streams; the returned function ends that."""
        self._losses.append(lost)
        return lambda: self._losses.remove(lost)

    def break_streams(self, kind: Kind | None = None) -> None:
        """End the streams of one kind, or all."""
        for stream in self._streams:
            if kind in (None, stream.kind):
                stream.task.cancel()

    # requests -----------------------------------------------------------------------------

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer any request."""
        return await respond(request, self._route)

    async def _route(self, request: web.Request) -> web.StreamResponse:
        token = self.connections.admit(request)
        if token not in self.granted:
            raise Refusal(401, "Unauthorized", "Unauthorized")
        target = Target.parse(request.path.rstrip("/"))
        if target is None:
            return await self._look_up(request)
        content = await request.read()
        note = log_entry(request, target, token, decode(content))
        self.log.requests.append(note)
        outcome = self.faults.take(note)
        try:
            if outcome is not None and not outcome.after_commit:
                await outcome.trigger(note)
            self.connections.require_alive(token)
            answer = await self._answer(request, target, note, content)
            if outcome is not None and outcome.after_commit:
                await outcome.trigger(note)
        except Refusal as refusal:
            note.code = refusal.code
            raise
        note.code = answer.status
        return answer

    async def _answer(self, request: web.Request, target: Target, note: Request, content: bytes) -> web.StreamResponse:
        url = self._url(request, target)
        if note.verb == "watch":
            note.code = 200
            return await self._watch(request, target.kind, url)
        answer = await self._pass_on(request, url, content)
        note.changed = note.write and answer.status < ERRORS_FROM
        return answer

    async def _look_up(self, request: web.Request) -> web.Response:
        """Answer discovery and access reviews; each request is forwarded once and cached."""
        content = await request.read()
        question = (request.method, request.raw_path, content)
        if question in self.cluster.answers:
            status, body, headers = self.cluster.answers[question]
            return web.Response(body=body, status=status, headers=headers)
        found = await self._pass_on(request, self._url(request), content)
        if found.status < ERRORS_FROM:
            assert isinstance(found.body, bytes)
            self.cluster.answers[question] = (found.status, found.body, dict(found.headers))
        return found

    def _url(self, request: web.Request, target: Target | None = None) -> URL:
        path = request.raw_path
        if target is not None and target.kind.namespaced and not target.namespace:
            path = path.replace(f"{target.kind.root}/", f"{target.kind.root}/namespaces/{self.namespace}/", 1)
        return URL(self.cluster.operator.server + path, encoded=True)

    def _headers(self, request: web.Request) -> dict[str, str]:
        passed = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        return {**passed, "Authorization": f"Bearer {self.cluster.operator.token.current()}"}

    async def _pass_on(self, request: web.Request, url: URL, content: bytes) -> web.Response:
        try:
            async with self.upstream.request(
                request.method, url, data=content or None, headers=self._headers(request)
            ) as answer:
                body = await answer.read()
        except aiohttp.ClientError as error:
            raise ConnectionCut from error
        headers = {name: answer.headers[name] for name in PASSED_BACK if name in answer.headers}
        return web.Response(body=body, status=answer.status, headers=headers)

    # streams ------------------------------------------------------------------------------

    async def _watch(self, request: web.Request, kind: Kind, url: URL) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        since = request.query.get("resourceVersion", "")
        if since and int(since) < self.oldest:  # sent within the stream, as the real server does
            status = expired(f"too old resource version: {since} ({self.oldest})").status()
            await response.prepare(request)
            await response.write_eof(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
            return response
        pump = asyncio.create_task(self._pump(request, kind, url, response))
        stream = _Stream(kind, pump)
        self._streams.append(stream)
        try:
            await asyncio.wait([pump])
        finally:
            self._streams.remove(stream)
            pump.cancel()
        if not pump.cancelled():
            pump.result()
        if not response.prepared:
            raise ConnectionCut
        with contextlib.suppress(ConnectionError):
            await response.write_eof()
        return response

    async def _pump(self, request: web.Request, kind: Kind, url: URL, response: web.StreamResponse) -> None:
        with contextlib.suppress(ConnectionError, aiohttp.ClientError):  # either side has left
            async with self.upstream.get(url, headers=self._headers(request), timeout=WITHOUT_LIMIT) as answer:
                if answer.status != web.HTTPOk.status_code:
                    said = json.loads(await answer.read())
                    raise Refusal(answer.status, said.get("reason", ""), said.get("message", ""))
                await response.prepare(request)
                async for line in lines(answer.content):
                    while kind in self._halted:
                        await self._halted[kind].wait()
                    if not self._lost(kind, line):
                        await response.write(line + b"\n")

    def _lost(self, kind: Kind, line: bytes) -> bool:
        if not self._losses:
            return False
        event: Any = json.loads(line)
        return event["type"] in {"ADDED", "MODIFIED", "DELETED"} and any(
            lost(as_commit(kind, event)) for lost in self._losses
        )


async def lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield whole lines of any length, without line ends."""
    rest = b""
    async for chunk in stream.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line
