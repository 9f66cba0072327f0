"""One request to the API server: session, token, retries, fencing, timeouts."""

from __future__ import annotations

import asyncio
import random
from asyncio.sslproto import SSLProtocol
from contextlib import asynccontextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, Self

import aiohttp
from yarl import URL

from dtj_operator.kube import serializer
from dtj_operator.kube.errors import Fenced, KubeError, OutcomeUnknown, Retry, Unauthorized, error_from_response
from dtj_operator.kube.rate_limiter import TokenBucket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from types import TracebackType

    from dtj_operator.kube.rest_config import RestConfig

CONNECT_SECONDS = 5.0
"""For name, connection and TLS together. A write that was allowed is sent after that, so this is no longer than a lease
lasts beyond the deadline of its holder."""
READ = aiohttp.ClientTimeout(total=10, connect=CONNECT_SECONDS)
LIST = aiohttp.ClientTimeout(total=30, connect=CONNECT_SECONDS)
WRITE = aiohttp.ClientTimeout(total=15, connect=CONNECT_SECONDS)
"""How long a response may take."""
SILENCE_SECONDS = 75.0
"""A watch that is silent for longer is dead: servers send a bookmark about once a minute."""
JSON = "application/json"
MAX_ATTEMPTS = 3
FIRST_PAUSE_SECONDS = 0.2
MAX_RETRY_AFTER_SECONDS = 30.0
MAX_CONNECTIONS = 32
"""For concurrent requests; more of them create pods no faster. Each watch has one more, for as long as it lasts."""
TLS_BUFFER_BYTES = 32 * 1024
"""asyncio keeps a buffer of this size for each TLS connection and asks for as much again for each read. Its default is
256 KiB, which costs 10 MB more for as many connections (measured) and is no faster."""
FIRST_ERROR_STATUS = 400


def watch_timeout(seconds: int) -> aiohttp.ClientTimeout:
    """Return the timeouts of a watch that the server ends after `seconds`."""
    return aiohttp.ClientTimeout(total=seconds + 30, connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)


class Transport:
    """A sender of requests over one aiohttp session. Use as an async context manager."""

    def __init__(
        self,
        config: RestConfig,
        *,
        user_agent: str,
        qps: float,
        burst: int,
        record_request: Callable[[str, str], None],
    ) -> None:
        """`record_request(method, status)` is called for each response, with `<error>` where there was none."""
        self._config = config
        self._user_agent = user_agent
        self._rate_limiter = TokenBucket(qps, burst)
        self._record_request = record_request
        self._session: aiohttp.ClientSession | None = None
        self._connections = asyncio.Semaphore(MAX_CONNECTIONS)
        self._write_middlewares: tuple[aiohttp.ClientMiddlewareType, ...] = ()

    async def __aenter__(self) -> Self:
        self._session = open_session(self._config, self._user_agent)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    def fenced(self, may_write: Callable[[], bool]) -> Self:
        """Return the same transport, whose writes raise Fenced unless `may_write()` is true when they are sent.

        A write may wait for long before it is sent: for the rate limiter, for a connection, or because the server asked
        for a pause before the next attempt.
        """

        async def check(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
            if not may_write():
                msg = f"{request.method} {request.url.path} was not sent: leadership has been lost, or may have been"
                raise Fenced(msg)
            return await send(request)

        # A middleware is also called when aiohttp sends a request again by itself, on a new connection.
        transport = copy(self)
        transport._write_middlewares = (check,)  # noqa: SLF001  (of its own class)
        return transport

    async def send(
        self,
        method: str,
        path: str,
        timeouts: aiohttp.ClientTimeout,
        content: bytes | None = None,
        content_type: str = JSON,
        *,
        idempotent: bool,
        accept: str = JSON,
    ) -> dict[str, Any]:
        """Send one request, again where the server surely has not acted on it or acting twice is harmless.

        Without a response, an idempotent request raises Retry after the last attempt, any other OutcomeUnknown at once.
        """
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                return await self._send_once(
                    method, path, timeouts, content, content_type, idempotent=idempotent, accept=accept
                )
            except Retry as error:
                if attempt == MAX_ATTEMPTS:
                    raise
                await asyncio.sleep(_pause(attempt, error.after))
            except Unauthorized:
                if attempt > 1:
                    raise
        raise AssertionError

    @asynccontextmanager
    async def stream(
        self, path: str, timeouts: aiohttp.ClientTimeout, what: str
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """Open a response that is read while the server sends it. Raises Retry when it breaks, with `what` it is."""
        try:
            async with self._open("GET", path, timeouts) as response:
                self._record_request("WATCH", str(response.status))
                if response.status >= FIRST_ERROR_STATUS:
                    raise self._error(response, await response.read(), idempotent=True)
                yield response.content
        except (aiohttp.ClientError, TimeoutError) as error:
            msg = f"{what} broke: {_describe(error)}"
            raise Retry(msg) from error

    async def _send_once(
        self,
        method: str,
        path: str,
        timeouts: aiohttp.ClientTimeout,
        content: bytes | None,
        content_type: str,
        *,
        idempotent: bool,
        accept: str,
    ) -> dict[str, Any]:
        await self._rate_limiter.wait()
        try:
            async with (
                self._connections,
                self._open(method, path, timeouts, content, content_type, accept=accept) as response,
            ):
                text = await response.read()
        except aiohttp.ClientConnectorError as error:
            self._record_request(method, "<error>")
            msg = f"the API server at {self._config.server} cannot be reached: {_describe(error)}"
            raise Retry(msg) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            self._record_request(method, "<error>")
            msg = f"{method} {path} got no answer: {_describe(error)}"
            raise (Retry(msg) if idempotent else OutcomeUnknown(msg)) from error
        self._record_request(method, str(response.status))
        if response.status >= FIRST_ERROR_STATUS:
            raise self._error(response, text, idempotent=idempotent)
        try:
            return serializer.loads(text)
        except ValueError as error:
            msg = f"{method} {path} was answered with something that is not a Kubernetes object"
            raise (Retry(msg) if idempotent else OutcomeUnknown(msg)) from error

    def _open(
        self,
        method: str,
        path: str,
        timeouts: aiohttp.ClientTimeout,
        content: bytes | None = None,
        content_type: str = JSON,
        *,
        accept: str = JSON,
    ) -> aiohttp.client._RequestContextManager:
        if self._session is None:
            msg = "the client is not open"
            raise RuntimeError(msg)
        headers = {"Accept": accept}
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
            timeout=timeouts,
            allow_redirects=False,
            server_hostname=self._config.server_name or None,
            middlewares=self._write_middlewares if method != "GET" else (),
        )

    def _error(self, response: aiohttp.ClientResponse, text: bytes, *, idempotent: bool) -> KubeError:
        try:
            body = serializer.loads(text)
        except ValueError:
            body = {"message": f"the API server answered {response.status}: {text[:200].decode('utf-8', 'replace')}"}
        retry_after = _parse_seconds(response.headers.get("Retry-After"))
        error = error_from_response(response.status, body, idempotent=idempotent, retry_after=retry_after)
        if isinstance(error, Unauthorized):
            self._config.token.forget()
        return error


def open_session(config: RestConfig, user_agent: str) -> aiohttp.ClientSession:
    """Open a session with the configured TLS; the caller sends the token and closes it."""
    SSLProtocol.max_size = TLS_BUFFER_BYTES
    context = config.ssl_context()
    connector = aiohttp.TCPConnector(limit=0, ssl=context if context is not None else True, ttl_dns_cache=30)
    # Networks inside clusters are fast: an API server takes longer to compress a long list than to send it.
    headers = {"User-Agent": user_agent, "Accept-Encoding": "identity"}
    return aiohttp.ClientSession(connector=connector, headers=headers, trust_env=False)


def _pause(attempt: int, after: float | None) -> float:
    """Return the seconds before the next attempt: what the server asked for, else doubling with jitter."""
    if after is not None:
        return min(after, MAX_RETRY_AFTER_SECONDS) * random.uniform(1.0, 1.1)
    return FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1) * random.uniform(0.5, 1.5)


def _parse_seconds(header: str | None) -> float | None:
    try:
        return float(header) if header else None
    except ValueError:
        return None


def _describe(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return str(error) or type(error).__name__
