"""The operator's HTTP ports."""

from __future__ import annotations

import socket

import aiohttp
import pytest

from dtj_operator.app.http_server import health, serving
from dtj_operator.app.settings import Address, SettingsError


def loopbacks() -> list[str]:
    """Return the loopback addresses of this machine."""
    found = []
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            socket.create_server((host, 0), family=family).close()
        except OSError:
            continue
        found.append(f"[{host}]" if ":" in host else host)
    return found


async def test_without_a_host_a_port_answers_under_ipv4_and_ipv6():
    async with (
        serving(health(lambda: "", lambda: "not yet"), Address("", 0)) as port,
        aiohttp.ClientSession() as session,
    ):
        for host in loopbacks():
            async with session.get(f"http://{host}:{port}/healthz") as answer:
                assert await answer.text() == "ok\n"
            async with session.get(f"http://{host}:{port}/readyz") as answer:
                assert (answer.status, await answer.text()) == (503, "not yet\n")


async def test_a_port_that_is_taken_is_named():
    async with serving(health(str, str), Address("", 0)) as port:
        with pytest.raises(SettingsError, match=rf"cannot listen on :{port}: Address already in use"):
            async with serving(health(str, str), Address("", port)):
                pass
