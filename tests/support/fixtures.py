"""Pytest fixtures of the in-process API server: `from tests.support.fixtures import *` in a conftest.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.support.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["api_server"]


@pytest_asyncio.fixture
async def api_server() -> AsyncIterator[ApiServer]:
    """A running API server with our kind, nodes absent, the usual namespaces present."""
    async with ApiServer() as server:
        yield server
