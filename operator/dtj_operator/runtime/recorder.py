"""Kubernetes events about jobs. Best effort: a lost event changes nothing.

They are posted in the background, two at a time, and wait a little while jobs are in line, so that a thousand
jobs that start together get their pods first and their events after.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from dtj_operator.kube.errors import KubeError
from dtj_operator.kube.resources import EVENTS, JOBS

if TYPE_CHECKING:
    from collections.abc import Callable

    from dtj_operator.domain.plan import Event
    from dtj_operator.kube.client import ApiClient
    from dtj_operator.runtime.clock import Clock
    from dtj_operator.runtime.store import KnownJob

logger = logging.getLogger(__name__)

COMPONENT = "dtj-operator"
LONGEST_MESSAGE = 1024
"""Characters the API server accepts in an event's message."""

AT_ONCE = 2
PATIENCE_SECONDS = 30.0
"""How long an event gives way to jobs in line."""
LOOK_SECONDS = 0.1
MOST_WAITING = 10_000
"""Beyond that the newest are dropped: somebody is in a storm, and events are not what they need."""


class Recorder:
    """Posts events in the name of one operator process."""

    def __init__(self, client: ApiClient, clock: Clock, identity: str, *, busy: Callable[[], bool]) -> None:
        """`busy`: whether anything more urgent is waiting."""
        self._client = client
        self._busy = busy
        self._flushing = False
        self._clock = clock
        self._identity = identity
        self._last = 0
        self._waiting: asyncio.Queue[tuple[float, str, dict[str, Any]]] = asyncio.Queue(MOST_WAITING)

    async def run(self) -> None:
        """Post what is waiting, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._post_all())

    async def flush(self, seconds: float) -> None:
        """Wait until everything is posted, but not longer than that."""
        self._flushing = True
        try:
            await asyncio.wait_for(self._waiting.join(), seconds)
        except TimeoutError:
            logger.info("events not posted", extra={"count": self._waiting.qsize()})

    def record(self, known: KnownJob, event: Event) -> None:
        """Have one event posted on a job."""
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        self._last = max(self._last + 1, time.time_ns())
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{known.name}.{self._last:x}", "namespace": known.namespace},
            "involvedObject": {
                "apiVersion": JOBS.api_version,
                "kind": "DistributedTrainingJob",
                "namespace": known.namespace,
                "name": known.name,
                "uid": known.uid,
            },
            "type": event.type,
            "reason": event.reason,
            "message": event.message[:LONGEST_MESSAGE],
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._identity,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            self._waiting.put_nowait((asyncio.get_running_loop().time(), known.namespace, body))
        except asyncio.QueueFull:
            logger.info("event dropped", extra={"job": f"{known.namespace}/{known.name}", "reason": event.reason})

    async def _post_all(self) -> None:
        while True:
            since, namespace, body = await self._waiting.get()
            try:
                await self._give_way(since + PATIENCE_SECONDS)
                await self._client.create(EVENTS, namespace, body)
            except KubeError as error:
                logger.info(
                    "event not posted",
                    extra={"event": body["metadata"]["name"], "reason": body["reason"], "error": error.message},
                )
            finally:
                self._waiting.task_done()

    async def _give_way(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        while self._busy() and not self._flushing and loop.time() < until:  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(LOOK_SECONDS)
