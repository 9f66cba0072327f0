"""Time that passes faster: an event loop and a wall clock that run `speed` times as fast as the real ones.

Every sleep, timeout and timestamp of what runs in such a loop is shortened alike, while the network stays real.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


STALL_SECONDS: Final = 0.05
"""Real seconds without an update after which a fast clock stands still."""
BEAT_SECONDS: Final = 0.015
SHORTEST_WAIT_SECONDS: Final = 0.0005
"""Real seconds; a clock that stands still would make the loop spin otherwise."""


class FastClock:
    """An accelerated clock, shared by a test's server and its operators.

    Time passes only while `run` updates the clock: when the machine is so busy that the server's loop stands still, so
    does time, and no request times out because of that.
    """

    def __init__(self, speed: float) -> None:
        """`speed`: seconds that pass in a real second."""
        self.speed = speed
        self._epoch = datetime.now(UTC)
        self._beat = (0.0, time.monotonic())
        """Seconds passed until the last beat, and when that was in real time; replaced as one, as threads read it."""

    def elapsed(self) -> float:
        """Return the accelerated seconds since the start."""
        passed, at = self._beat
        return passed + min(time.monotonic() - at, STALL_SECONDS) * self.speed

    def now(self) -> datetime:
        """Aware, in UTC."""
        return self._epoch + timedelta(seconds=self.elapsed())

    def skip(self, seconds: float) -> None:
        """The wall clock jumps ahead; loops do not notice."""
        self._epoch += timedelta(seconds=seconds)

    async def run(self) -> None:
        """Update the clock until cancelled, in the loop whose stalls shall not count."""
        while True:
            self._beat = (self.elapsed(), time.monotonic())
            await asyncio.sleep(BEAT_SECONDS)


class _FastSelector(selectors.BaseSelector):
    """A selector whose timeouts are divided by `speed`."""

    def __init__(self, speed: float) -> None:
        self._inner = selectors.DefaultSelector()
        self._speed = speed

    def register(self, fileobj: object, events: int, data: object = None) -> selectors.SelectorKey:
        return self._inner.register(fileobj, events, data)  # type: ignore[arg-type]

    def unregister(self, fileobj: object) -> selectors.SelectorKey:
        return self._inner.unregister(fileobj)  # type: ignore[arg-type]

    def modify(self, fileobj: object, events: int, data: object = None) -> selectors.SelectorKey:
        return self._inner.modify(fileobj, events, data)  # type: ignore[arg-type]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return self._inner.select(timeout)
        return self._inner.select(max(timeout / self._speed, SHORTEST_WAIT_SECONDS))

    def close(self) -> None:
        self._inner.close()

    def get_key(self, fileobj: object) -> selectors.SelectorKey:
        return self._inner.get_key(fileobj)  # type: ignore[arg-type]

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._inner.get_map()


class FastLoop(asyncio.SelectorEventLoop):
    """An event loop whose time runs `speed` times as fast."""

    def __init__(self, speed: float, clock: Callable[[], float] | None = None) -> None:
        """`clock`: its seconds; None = from the machine's own clock."""
        self._speed = speed
        self._clock = clock
        super().__init__(_FastSelector(speed))

    def time(self) -> float:
        """Loop seconds."""
        return self._clock() if self._clock is not None else time.monotonic() * self._speed


IDLE_SECONDS: Final = 0.001
"""Real seconds without work after which a loop in a hurry skips to its next timer."""
TURN_SECONDS: Final = 1e-7
"""Seconds that one iteration of a busy loop counts: with 0, a timer of no time would run in an endless loop."""


class _IdleSelector(_FastSelector):
    """A selector that counts idle seconds; in a hurry it skips them."""

    def __init__(self) -> None:
        super().__init__(1.0)
        self.passed = 0.0
        self.hurries = False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            self.passed += TURN_SECONDS
            return self._inner.select(timeout)
        began = time.monotonic()
        happened = self._inner.select(min(timeout, IDLE_SECONDS) if self.hurries and timeout is not None else timeout)
        waited = time.monotonic() - began
        self.passed += timeout if timeout is not None and not happened else waited
        return happened


class IdleLoop(asyncio.SelectorEventLoop):
    """An event loop whose time stands still while there is anything to do.

    However slow the machine, a late action is late by decision. Waits take real time until `hurry` is called.
    """

    def __init__(self) -> None:
        """Its time begins at 0."""
        self._idle = _IdleSelector()
        self._epoch = datetime.now(UTC)
        super().__init__(self._idle)

    def hurry(self) -> None:
        """Skip idle time from now on: when the loop has nothing to do, it goes to its next timer."""
        self._idle.hurries = True

    def time(self) -> float:
        """Loop seconds."""
        return self._idle.passed

    def now(self) -> datetime:
        """The wall clock that goes with it: aware, in UTC."""
        return self._epoch + timedelta(seconds=self.time())
