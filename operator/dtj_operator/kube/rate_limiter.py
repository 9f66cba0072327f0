"""Token bucket that limits the rate of the operator's requests."""

from __future__ import annotations

import asyncio


class TokenBucket:
    """A limit of at most `rate` requests a second on average, `burst` at once; rate 0 means no limit.

    Waiters are served in order of arrival.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = max(1, burst)
        self._tokens = float(self._burst)
        self._filled_at: float | None = None

    async def wait(self) -> None:
        """Wait until one more request is allowed."""
        if self._rate <= 0:
            return
        now = asyncio.get_running_loop().time()
        if self._filled_at is None:
            self._filled_at = now
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        # The balance may go below zero: then it is the length of the queue.
        self._tokens -= 1
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / self._rate)
