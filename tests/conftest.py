"""For every test."""

from __future__ import annotations

import asyncio

# Python 3.11 makes an event loop for the first who asks for one in the main thread, which is pytest-asyncio, and
# nobody closes that: much later it is a ResourceWarning in a test that has nothing to do with it.
asyncio.set_event_loop(None)
