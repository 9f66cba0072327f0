"""The connections of clients by bearer token; clients can be killed."""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web

from tests.support.apiserver.errors import Refusal
from tests.support.apiserver.faults import ConnectionCut

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@dataclass(slots=True)
class ClientConnections:
    """The clients of one server."""

    _dead: set[str] = field(default_factory=set)
    _connections: dict[str, weakref.WeakSet[asyncio.BaseTransport]] = field(default_factory=dict)
    """By bearer token."""

    def kill_client(self, token: str) -> None:
        """Abort the connections of the client with this token; nothing that it still sends arrives."""
        self._dead.add(token)
        for transport in self._connections.pop(token, ()):
            if isinstance(transport, asyncio.Transport):
                transport.abort()

    def admit(self, request: web.Request) -> str:
        """Return the token of a request. Raises ConnectionCut for a killed client."""
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.require_alive(token)
        if request.transport is not None:
            self._connections.setdefault(token, weakref.WeakSet()).add(request.transport)
        return token

    def require_alive(self, token: str) -> None:
        """Raise ConnectionCut if this client was killed."""
        if token in self._dead:
            raise ConnectionCut


async def respond(
    request: web.Request, route: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Answer a request by `route`: refusals as metav1.Status, cuts as a connection reset."""
    try:
        return await route(request)
    except Refusal as refusal:
        return web.json_response(refusal.status(), status=refusal.code, headers=refusal.headers)
    except ConnectionCut:
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)
