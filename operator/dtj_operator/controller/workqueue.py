"""WorkQueue: one key per job, with delays and backoff; a key is never worked on twice at the same time."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dtj_operator.cache.namespaced_name import NamespacedName
    from dtj_operator.controller.metrics import Metrics

FIRST_BACKOFF_SECONDS = 0.05
MAX_BACKOFF_SECONDS = 60.0


class WorkQueue:
    """A level-triggered work queue of one event loop, as client-go's.

    A key that is added while it is being worked on comes back when that is finished. Of several delays of a key only
    the earliest counts. Getting a key drops its delay, as each reconciliation says again when the next one is due.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._queue: deque[NamespacedName] = deque()
        self._added_at: dict[NamespacedName, float] = {}
        """Keys in the queue, and when they were added (loop time)."""
        self._processing: set[NamespacedName] = set()
        self._dirty: set[NamespacedName] = set()
        """Keys that were added while they were worked on."""
        self._timers: dict[NamespacedName, asyncio.TimerHandle] = {}
        self._overdue: set[NamespacedName] = set()
        """Keys whose delay ended while they were worked on."""
        self._failures: dict[NamespacedName, int] = {}
        self._added = asyncio.Event()
        self._shut_down = False

    @property
    def busy(self) -> bool:
        """Whether any key is in the queue or being worked on."""
        return bool(self._queue or self._processing)

    def add(self, key: NamespacedName) -> None:
        """Queue a key, unless it is queued already."""
        if key in self._processing:
            self._dirty.add(key)
        elif key not in self._added_at:
            self._metrics.record_add()
            self._added_at[key] = asyncio.get_running_loop().time()
            self._queue.append(key)
            self._added.set()

    def add_after(self, key: NamespacedName, seconds: float) -> None:
        """Queue a key after that time, or earlier if that was asked for before."""
        loop = asyncio.get_running_loop()
        when = loop.time() + max(0.0, seconds)
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= when:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(when, self._delay_ended, key)

    async def get(self) -> NamespacedName:
        """Wait for the next key; the caller owns it until `done` or `add_rate_limited`."""
        while self._shut_down or not self._queue:
            self._added.clear()
            await self._added.wait()
        loop = asyncio.get_running_loop()
        key = self._queue.popleft()
        self._metrics.record_queue_wait(loop.time() - self._added_at.pop(key))
        self._processing.add(key)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        return key

    def done(self, key: NamespacedName) -> None:
        """Give a key back after a success, which also resets its backoff."""
        self._failures.pop(key, None)
        self._overdue.discard(key)
        self._processing.discard(key)
        if key in self._dirty:
            self._dirty.discard(key)
            self.add(key)

    def add_rate_limited(self, key: NamespacedName, after: float | None = None) -> float:
        """Give a key back after an error, to be queued after a growing, jittered delay. Returns the delay in seconds.

        The delay is at least `after` seconds. Changes may wait until it ends; a delay that `add_after` ordered stays.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        longest = min(MAX_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** min(failures, 20))
        delay = max(longest * random.uniform(0.5, 1.0), after or 0.0)
        self._metrics.record_retry()
        self._processing.discard(key)
        self._dirty.discard(key)
        if key in self._overdue:
            self._overdue.discard(key)
            delay = 0.0
        self.add_after(key, delay)
        return delay

    def shut_down(self) -> None:
        """Hand out no more keys."""
        self._shut_down = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _delay_ended(self, key: NamespacedName) -> None:
        self._timers.pop(key, None)
        if key in self._processing:
            self._overdue.add(key)
        self.add(key)
