"""Whose turn it is: each key at most once in the line, and never twice at the same time."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dtj_operator.cache.namespaced_name import NamespacedName
    from dtj_operator.controller.metrics import Metrics

FIRST_BACKOFF_SECONDS = 0.05
LONGEST_BACKOFF_SECONDS = 60.0


class Queue:
    """Level-triggered work queue of one event loop.

    A key that is added while it is being worked on comes back once that is finished. Delayed keys keep only
    the earliest time; taking a key drops its delay, as every pass says anew when to look again.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._line: deque[NamespacedName] = deque()
        self._since: dict[NamespacedName, float] = {}
        """Keys in line, and when they got there (loop time)."""
        self._busy: set[NamespacedName] = set()
        self._again: set[NamespacedName] = set()
        self._timers: dict[NamespacedName, asyncio.TimerHandle] = {}
        self._overdue: set[NamespacedName] = set()
        """Keys whose time has come while they were worked on."""
        self._failures: dict[NamespacedName, int] = {}
        self._news = asyncio.Event()
        self._closed = False

    @property
    def at_work(self) -> bool:
        """Whether any key is in line or being worked on."""
        return bool(self._line or self._busy)

    @property
    def oldest_seconds(self) -> float:
        """How long the first key in line has been waiting."""
        return asyncio.get_running_loop().time() - self._since[self._line[0]] if self._line else 0.0

    def add(self, key: NamespacedName) -> None:
        """Have this key looked at as soon as possible."""
        if key in self._busy:
            self._again.add(key)
        elif key not in self._since:
            self._metrics.added()
            self._since[key] = asyncio.get_running_loop().time()
            self._line.append(key)
            self._news.set()

    def add_after(self, key: NamespacedName, seconds: float) -> None:
        """Have this key looked at then, or earlier if that was asked for before."""
        loop = asyncio.get_running_loop()
        when = loop.time() + max(0.0, seconds)
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= when:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(when, self._due, key)

    async def take(self) -> NamespacedName:
        """The next key; the caller owns it until `done` or `failed`."""
        while self._closed or not self._line:
            self._news.clear()
            await self._news.wait()
        loop = asyncio.get_running_loop()
        key = self._line.popleft()
        self._metrics.waited(loop.time() - self._since.pop(key))
        self._busy.add(key)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        return key

    def done(self, key: NamespacedName) -> None:
        """The pass went well."""
        self._failures.pop(key, None)
        self._overdue.discard(key)
        self._release(key)

    def failed(self, key: NamespacedName, after: float | None = None) -> float:
        """The pass went wrong: come back after a growing, jittered delay, at least `after` seconds. Returns it.

        A time that was ordered stays ordered: news may wait for the end of the delay, a deadline may not.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        longest = min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** min(failures, 20))
        delay = max(longest * random.uniform(0.5, 1.0), after or 0.0)
        self._metrics.retried()
        self._busy.discard(key)
        self._again.discard(key)
        if key in self._overdue:
            self._overdue.discard(key)
            delay = 0.0
        self.add_after(key, delay)
        return delay

    def close(self) -> None:
        """Hand out no more keys."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _release(self, key: NamespacedName) -> None:
        self._busy.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _due(self, key: NamespacedName) -> None:
        self._timers.pop(key, None)
        if key in self._busy:
            self._overdue.add(key)
        self.add(key)
