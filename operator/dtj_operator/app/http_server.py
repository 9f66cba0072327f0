"""The HTTP endpoints of the operator: /healthz, /readyz and /metrics."""

from __future__ import annotations

import errno
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web

from dtj_operator.app.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from dtj_operator.app.settings import Address

UNAVAILABLE = 503
NO_IPV6 = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})


def health(live: Callable[[], str], ready: Callable[[], str]) -> web.Application:
    """Return the application of /healthz and /readyz. `live` and `ready` return what is wrong, or nothing."""
    return _application({"/healthz": _verdict(live), "/readyz": _verdict(ready)})


def metrics(text: Callable[[], bytes]) -> web.Application:
    """Return the application with /metrics, in Prometheus' text format."""

    def answer() -> web.Response:
        return web.Response(body=text(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    return _application({"/metrics": answer})


@asynccontextmanager
async def serving(application: web.Application, address: Address) -> AsyncIterator[int]:
    """Serve while the context is open; yields the port. Raises SettingsError when the address is not free."""
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, handle_signals=False)
    await runner.setup()
    try:
        try:
            await web.SockSite(runner, _listening(address)).start()
        except OSError as error:
            msg = f"cannot listen on {address.host}:{address.port}: {error.strerror}"
            raise SettingsError(msg) from error
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _listening(address: Address) -> socket.socket:
    """Open the socket: for IPv6 and IPv4, or for the one that the machine has."""
    place = (address.host, address.port)
    if not address.host:
        try:
            return socket.create_server(place, family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            if error.errno not in NO_IPV6:
                raise
    return socket.create_server(place, family=socket.AF_INET6 if ":" in address.host else socket.AF_INET)


def _verdict(check: Callable[[], str]) -> Callable[[], web.Response]:
    def answer() -> web.Response:
        problem = check()
        return web.Response(status=UNAVAILABLE if problem else 200, text=f"{problem or 'ok'}\n")

    return answer


def _application(answers: Mapping[str, Callable[[], web.Response]]) -> web.Application:
    application = web.Application()
    for path, answer in answers.items():

        async def handle(_request: web.Request, answer: Callable[[], web.Response] = answer) -> web.Response:
            return answer()

        application.router.add_get(path, handle)
    return application
