"""The server in its own thread, for blocking clients."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.apiserver.server import ApiServer


@contextmanager
def in_a_thread(server: ApiServer) -> Iterator[ApiServer]:
    """Run the server while the block runs. Its state belongs to the thread: use it by HTTP alone."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="api-server", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result()
        yield server
        asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
