"""The named tasks of a process, and the errors that end it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class LeadershipLost(Exception):
    """The lease is lost, so another process may lead now: this one has to end at once."""


class RestartNeeded(Exception):
    """The process has to be started again; the message says why."""


class Runnables:
    """The tasks of one process. None of them may end by itself."""

    def __init__(self, on_failure: Callable[[Exception], None]) -> None:
        """`on_failure` is called for every task that ends without being stopped."""
        self._on_failure = on_failure
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, work: Coroutine[None, None, None], name: str) -> None:
        """Run `work` until it is stopped."""
        task = asyncio.create_task(work, name=name)
        self._tasks.append(task)
        task.add_done_callback(self._report)

    async def stop(self, name: str, seconds: float) -> None:
        """Cancel the tasks of this name, and wait at most `seconds` until they have ended."""
        tasks = [task for task in self._tasks if task.get_name() == name]
        self._cancel(tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    async def stop_all(self) -> None:
        """Cancel every task, and wait until all have ended."""
        self._cancel(self._tasks)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _cancel(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.remove_done_callback(self._report)
            task.cancel()

    def _report(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self._on_failure(error if isinstance(error, Exception) else RuntimeError(f"{task.get_name()} ended by itself"))
