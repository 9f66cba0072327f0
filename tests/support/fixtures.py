"""Pytest fixtures of the in-process API server, to be imported by a conftest.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.support.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["api_server"]


@pytest_asyncio.fixture
async def api_server() -> AsyncIterator[ApiServer]:
    """Start an API server with our CRD and the usual namespaces, without nodes."""
    async with ApiServer() as server:
        yield server
