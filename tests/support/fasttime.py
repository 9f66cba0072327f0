"""Time that passes faster: an event loop and a wall clock that run `speed` times as fast as the real ones.

Every sleep, timeout and timestamp of what runs in such a loop is shortened alike, while the network stays real.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class FastClock:
    """The wall clock of a fast world; what it says can be shared by server and operators."""

    def __init__(self, speed: float) -> None:
        """`speed`: seconds that pass in a real second."""
        self.speed = speed
        self._started = time.monotonic()
        self._epoch = datetime.now(UTC)

    def now(self) -> datetime:
        """Aware, in UTC."""
        return self._epoch + timedelta(seconds=(time.monotonic() - self._started) * self.speed)

    def skip(self, seconds: float) -> None:
        """Jump ahead; loops do not notice."""
        self._epoch += timedelta(seconds=seconds)


class _HastySelector(selectors.BaseSelector):
    """Waits only the speed-th part of what it is told."""

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
        return self._inner.select(timeout / self._speed if timeout is not None and timeout > 0 else timeout)

    def close(self) -> None:
        self._inner.close()

    def get_key(self, fileobj: object) -> selectors.SelectorKey:
        return self._inner.get_key(fileobj)  # type: ignore[arg-type]

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._inner.get_map()


class FastLoop(asyncio.SelectorEventLoop):
    """An event loop whose time runs `speed` times as fast."""

    def __init__(self, speed: float) -> None:
        """`speed`: loop seconds in a real second."""
        self._speed = speed
        super().__init__(_HastySelector(speed))

    def time(self) -> float:
        """Loop seconds."""
        return time.monotonic() * self._speed


class FastKopf(asyncio.DefaultEventLoopPolicy):
    """Gives the thread in which the operator runs kopf a fast loop too; all other threads get usual ones.

    kopf is started there by `asyncio.run`, which leaves no other way to choose the loop.
    """

    THREAD = "kopf"

    def __init__(self, speed: float) -> None:
        """`speed`: as for FastLoop."""
        super().__init__()
        self._speed = speed

    @classmethod
    def install(cls, speed: float) -> None:
        """From now on, in this process. For all other threads nothing changes."""
        if not isinstance(asyncio.get_event_loop_policy(), cls):
            asyncio.set_event_loop_policy(cls(speed))

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """For the thread that asks."""
        if threading.current_thread().name == self.THREAD:
            return FastLoop(self._speed)
        return super().new_event_loop()
