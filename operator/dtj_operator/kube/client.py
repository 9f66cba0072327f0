"""Requests to the API server: one aiohttp session, plain dicts, typed errors.

Objects are `dict[str, Any]` as the server sends them. Every method may raise any KubeError that its docstring
names, and Retry or Unauthorized always.
"""

from __future__ import annotations

import asyncio
import random
from asyncio.sslproto import SSLProtocol
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from dtj_operator.kube import serializer
from dtj_operator.kube.errors import (
    GONE,
    Fenced,
    Gone,
    KubeError,
    OutcomeUnknown,
    Retry,
    Unauthorized,
    error_from_response,
)
from dtj_operator.kube.rate_limiter import TokenBucket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from types import TracebackType

    from dtj_operator.kube.resources import GroupVersionResource
    from dtj_operator.kube.rest_config import RestConfig

CONNECT_SECONDS = 5.0
"""For name, connection and TLS together: no longer than a lease lasts beyond its holder's own deadline, as a write
that was allowed is sent after that."""
READ = aiohttp.ClientTimeout(total=10, connect=CONNECT_SECONDS)
LIST = aiohttp.ClientTimeout(total=30, connect=CONNECT_SECONDS)
WRITE = aiohttp.ClientTimeout(total=15, connect=CONNECT_SECONDS)
"""How long an answer may take."""
SILENCE_SECONDS = 75.0
"""A watch that is silent for longer is dead: servers send a bookmark about once a minute."""
ATTEMPTS = 3
FIRST_PAUSE_SECONDS = 0.2
LONGEST_RETRY_AFTER_SECONDS = 30.0
CONNECTIONS = 32
"""For requests at once; more of them create pods no faster. Each watch has one besides, for as long as it lasts."""
TLS_BUFFER_BYTES = 32 * 1024
"""asyncio keeps a buffer of this size for each TLS connection and asks for as much again for each read, by default
256 KiB: 10 MB more for as many connections (measured), and none of them faster."""
ERRORS_FROM = 400


@dataclass(frozen=True, slots=True)
class Page:
    """One chunk of a list."""

    items: list[dict[str, Any]]
    resource_version: str
    """Of the whole list."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One watch event: ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: dict[str, Any]


class ApiClient:
    """What the operator asks of an API server. Use as an async context manager."""

    def __init__(
        self,
        config: RestConfig,
        *,
        user_agent: str,
        qps: float = 0,
        burst: int = 100,
        observe: Callable[[str, str], None] | None = None,
    ) -> None:
        self._config = config
        self._user_agent = user_agent
        self._bucket = TokenBucket(qps, burst)
        self._observe = observe or _ignore
        self._session: aiohttp.ClientSession | None = None
        self._free = asyncio.Semaphore(CONNECTIONS)
        self._before_writes: tuple[aiohttp.ClientMiddlewareType, ...] = ()

    async def __aenter__(self) -> Self:
        self._session = open_session(self._config, self._user_agent)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    def fenced(self, may_write: Callable[[], bool]) -> Self:
        """The same client, but no write is sent, the first time or again, unless `may_write` says so at that moment.

        A write may wait for long, for its turn or as the server asked. Where it may not be sent: Fenced.
        """

        async def ask(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
            if not may_write():
                msg = f"{request.method} {request.url.path} was not sent: leadership has been lost, or may have been"
                raise Fenced(msg)
            return await send(request)

        # As middleware, it is asked as well when aiohttp sends a request again by itself, on a new connection.
        client = copy(self)
        client._before_writes = (ask,)  # noqa: SLF001  (of its own kind)
        return client

    async def get(self, resource: GroupVersionResource, namespace: str | None, name: str) -> dict[str, Any]:
        """Read one object. Raises NotFound."""
        return await self._repeat("GET", resource.path(namespace, name), READ)

    async def pages(
        self, resource: GroupVersionResource, namespace: str | None, *, labels: str = "", limit: int = 250
    ) -> AsyncIterator[Page]:
        """A consistent list in chunks. Raises Gone when it took so long that the list must start again."""
        query: dict[str, str] = {"limit": str(limit)}
        if labels:
            query["labelSelector"] = labels
        while True:
            path = f"{resource.path(namespace)}?{urlencode(query)}"
            answer = await self._repeat("GET", path, LIST)
            metadata = answer.get("metadata") or {}
            yield Page(items=answer.get("items") or [], resource_version=str(metadata.get("resourceVersion") or "0"))
            token = metadata.get("continue")
            if not token:
                return
            query["continue"] = str(token)

    async def watch(
        self, resource: GroupVersionResource, namespace: str | None, *, since: str, labels: str = "", seconds: int = 290
    ) -> AsyncIterator[WatchEvent]:
        """Changes after resourceVersion `since`, until the server ends the stream. Raises Gone."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": since,
            "timeoutSeconds": str(seconds),
        }
        if labels:
            query["labelSelector"] = labels
        timeout = aiohttp.ClientTimeout(total=seconds + 30, connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
        try:
            async with self._open("GET", f"{resource.path(namespace)}?{urlencode(query)}", timeout) as answer:
                self._observe("WATCH", str(answer.status))
                if answer.status >= ERRORS_FROM:
                    raise self._refusal(answer, await answer.read(), wrote=False)
                async for line in _lines(answer.content):
                    yield _change(line)
        except (aiohttp.ClientError, TimeoutError) as error:
            msg = f"the watch of {resource.plural} broke: {_words(error)}"
            raise Retry(msg) from error

    async def create(
        self, resource: GroupVersionResource, namespace: str | None, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The created object. Raises AlreadyExists, Refused, NotFound, Unknown."""
        return await self._write("POST", resource.path(namespace), body, "application/json")

    async def replace(
        self, resource: GroupVersionResource, namespace: str, name: str, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Update with the resourceVersion in the body. Raises Conflict, NotFound, Refused, Unknown."""
        return await self._write("PUT", resource.path(namespace, name), body, "application/json")

    async def patch_status(
        self, resource: GroupVersionResource, namespace: str, name: str, patch: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Merge-patch the status; a resourceVersion in the patch is a precondition. Raises as `replace`."""
        path = resource.path(namespace, name, "status")
        return await self._write("PATCH", path, patch, "application/merge-patch+json")

    async def delete(
        self,
        resource: GroupVersionResource,
        namespace: str,
        name: str,
        *,
        uid: str,
        grace: int | None = None,
        propagation: str = "Background",
    ) -> dict[str, Any]:
        """Delete this incarnation. The answer is the object, or a Status. Raises NotFound, Conflict, Refused."""
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": propagation,
        }
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        # The UID makes a second deletion harmless, so this is a read as far as repeating goes.
        return await self._repeat("DELETE", resource.path(namespace, name), WRITE, serializer.dumps(options))

    async def _repeat(
        self, method: str, path: str, limit: aiohttp.ClientTimeout, content: bytes | None = None
    ) -> dict[str, Any]:
        """Send a request that may be sent again; a few times before giving up with Retry."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._send(method, path, limit, content, "application/json", wrote=False)
            except Retry as error:
                if attempt == ATTEMPTS:
                    raise
                await asyncio.sleep(_pause(attempt, error.after))
            except Unauthorized:
                if attempt > 1:
                    raise
        raise AssertionError

    async def _write(self, method: str, path: str, body: Mapping[str, Any], content_type: str) -> dict[str, Any]:
        """Send a request that must not be sent twice, unless the server surely has not acted on it."""
        content = serializer.dumps(body)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._send(method, path, WRITE, content, content_type, wrote=True)
            except Retry as error:
                if attempt == ATTEMPTS:
                    raise
                await asyncio.sleep(_pause(attempt, error.after))
            except Unauthorized:
                if attempt > 1:
                    raise
        raise AssertionError

    async def _send(
        self,
        method: str,
        path: str,
        limit: aiohttp.ClientTimeout,
        content: bytes | None,
        content_type: str,
        *,
        wrote: bool,
    ) -> dict[str, Any]:
        await self._bucket.take()
        try:
            async with self._free, self._open(method, path, limit, content, content_type) as answer:
                text = await answer.read()
        except aiohttp.ClientConnectorError as error:
            self._observe(method, "<error>")
            msg = f"the API server at {self._config.server} cannot be reached: {_words(error)}"
            raise Retry(msg) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            self._observe(method, "<error>")
            msg = f"{method} {path} got no answer: {_words(error)}"
            raise (OutcomeUnknown(msg) if wrote else Retry(msg)) from error
        self._observe(method, str(answer.status))
        if answer.status >= ERRORS_FROM:
            raise self._refusal(answer, text, wrote=wrote)
        try:
            return serializer.loads(text)
        except ValueError as error:
            msg = f"{method} {path} was answered with something that is not a Kubernetes object"
            raise (OutcomeUnknown(msg) if wrote else Retry(msg)) from error

    def _open(
        self,
        method: str,
        path: str,
        timeout: aiohttp.ClientTimeout,
        content: bytes | None = None,
        content_type: str = "application/json",
    ) -> aiohttp.client._RequestContextManager:
        if self._session is None:
            msg = "the client is not open"
            raise RuntimeError(msg)
        headers = {"Accept": "application/json"}
        if content is not None:
            headers["Content-Type"] = content_type
        token = self._config.token.current()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return self._session.request(
            method,
            URL(self._config.server + path, encoded=True),
            data=content,
            headers=headers,
            timeout=timeout,
            allow_redirects=False,
            server_hostname=self._config.server_name or None,
            middlewares=self._before_writes if method != "GET" else (),
        )

    def _refusal(self, answer: aiohttp.ClientResponse, text: bytes, *, wrote: bool) -> KubeError:
        try:
            body = serializer.loads(text)
        except ValueError:
            body = {"message": f"the API server answered {answer.status}: {text[:200].decode('utf-8', 'replace')}"}
        error = error_from_response(
            answer.status, body, wrote=wrote, retry_after=_seconds(answer.headers.get("Retry-After"))
        )
        if isinstance(error, Unauthorized):
            self._config.token.forget()
        return error


def open_session(config: RestConfig, user_agent: str) -> aiohttp.ClientSession:
    """A session with the connection's TLS; the caller sends the token and closes it."""
    SSLProtocol.max_size = TLS_BUFFER_BYTES
    context = config.ssl_context()
    connector = aiohttp.TCPConnector(limit=0, ssl=context if context is not None else True, ttl_dns_cache=30)
    # Networks inside clusters are fast: an API server takes longer to compress a long list than to send it.
    headers = {"User-Agent": user_agent, "Accept-Encoding": "identity"}
    return aiohttp.ClientSession(connector=connector, headers=headers, trust_env=False)


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Whole lines of any length; aiohttp's own reader gives up above 64 KiB."""
    rest = b""
    async for chunk in stream.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line


def _change(line: bytes) -> WatchEvent:
    try:
        event = serializer.loads(line)
        kind, body = event["type"], event["object"]
    except (ValueError, KeyError) as error:
        msg = "the watch sent something that is not a watch event"
        raise Retry(msg) from error
    if kind == "ERROR":
        code = int(body.get("code") or 0)
        message = str(body.get("message") or "the watch ended with an error")
        if code == GONE:
            raise Gone(message, code=code)
        raise Retry(message, code=code)
    return WatchEvent(kind, body)


def _pause(attempt: int, after: float | None) -> float:
    """Seconds before the next try: what the server asked for, else doubling with jitter."""
    if after is not None:
        return min(after, LONGEST_RETRY_AFTER_SECONDS) * random.uniform(1.0, 1.1)
    return FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1) * random.uniform(0.5, 1.5)


def _seconds(header: str | None) -> float | None:
    try:
        return float(header) if header else None
    except ValueError:
        return None


def _words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return str(error) or type(error).__name__


def _ignore(_method: str, _code: str) -> None:
    pass
