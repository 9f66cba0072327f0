"""Kubernetes events about jobs. Best effort: a lost event changes nothing.

They are posted in the background, two at a time, so that a thousand jobs that start together get their pods
first and their events after.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from dtj_operator.kube.errors import KubeError
from dtj_operator.kube.resources import EVENTS, JOBS

if TYPE_CHECKING:
    from dtj_operator.domain.plan import Event
    from dtj_operator.kube.client import ApiClient
    from dtj_operator.runtime.clock import Clock
    from dtj_operator.runtime.store import KnownJob

logger = logging.getLogger(__name__)

COMPONENT = "dtj-operator"
LONGEST_MESSAGE = 1024
"""Characters the API server accepts in an event's message."""


AT_ONCE = 2
MOST_WAITING = 10_000
"""Beyond that the newest are dropped: somebody is in a storm, and events are not what they need."""


class Recorder:
    """Posts events in the name of one operator process."""

    def __init__(self, client: ApiClient, clock: Clock, identity: str) -> None:
        self._client = client
        self._clock = clock
        self._identity = identity
        self._last = 0
        self._waiting: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue(MOST_WAITING)

    async def run(self) -> None:
        """Post what is waiting, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._post_all())

    async def flush(self, seconds: float) -> None:
        """Wait until everything is posted, but not longer than that."""
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
            self._waiting.put_nowait((known.namespace, body))
        except asyncio.QueueFull:
            logger.info("event dropped", extra={"job": f"{known.namespace}/{known.name}", "reason": event.reason})

    async def _post_all(self) -> None:
        while True:
            namespace, body = await self._waiting.get()
            try:
                await self._client.create(EVENTS, namespace, body)
            except KubeError as error:
                logger.info(
                    "event not posted",
                    extra={"event": body["metadata"]["name"], "reason": body["reason"], "error": error.message},
                )
            finally:
                self._waiting.task_done()
