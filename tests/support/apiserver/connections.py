"""Who comes in: clients by their bearer tokens, the dead ones among them, and how they are sent away."""

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
class Door:
    """The clients of one server."""

    _dead: set[str] = field(default_factory=set)
    _connections: dict[str, weakref.WeakSet[asyncio.BaseTransport]] = field(default_factory=dict)
    """By bearer token."""

    def bury(self, token: str) -> None:
        """The client with this token was killed: its connections are gone, and nothing it sends arrives."""
        self._dead.add(token)
        for transport in self._connections.pop(token, ()):
            if isinstance(transport, asyncio.Transport):
                transport.abort()

    def admit(self, request: web.Request) -> str:
        """The token of a request. Raises ConnectionCut for those of the dead."""
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.demand_life(token)
        if request.transport is not None:
            self._connections.setdefault(token, weakref.WeakSet()).add(request.transport)
        return token

    def demand_life(self, token: str) -> None:
        """Raise ConnectionCut if this client was killed meanwhile."""
        if token in self._dead:
            raise ConnectionCut


async def answered(
    request: web.Request, route: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """What `route` says; its refusals as metav1.Status, and the connection reset where it is cut."""
    try:
        return await route(request)
    except Refusal as refusal:
        return web.json_response(refusal.status(), status=refusal.code, headers=refusal.headers)
    except ConnectionCut:
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)
