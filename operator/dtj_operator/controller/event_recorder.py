"""EventRecorder: posts Kubernetes events about jobs. Best effort: a lost event changes nothing.

Events are posted in the background, two at a time. They wait a while for jobs in the work queue, so that a thousand
jobs that start together get their pods before their events.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from dtj_operator.kube.errors import KubeError
from dtj_operator.kube.resources import EVENTS, JOBS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from dtj_operator.cache.job_cache import CachedJob
    from dtj_operator.kube.client import ApiClient
    from dtj_operator.reconcile.state.plan import Event

logger = logging.getLogger(__name__)

COMPONENT = "dtj-operator"
MAX_MESSAGE_LENGTH = 1024
"""Characters that the API server accepts in an event's message."""

WORKERS = 2
MAX_WAIT_SECONDS = 30.0
"""How long an event waits at most for jobs in the work queue."""
CHECK_SECONDS = 0.1
MAX_PENDING = 10_000
"""Beyond that the newest events are dropped: in such an overload they help nobody."""


class _PendingEvent(NamedTuple):
    """An event that waits. There may be thousands, so its JSON, ten times as large, is made only when it is posted."""

    since: float
    """Loop time."""
    namespace: str
    job: str
    uid: str
    name: str
    at: str
    event: Event


class EventRecorder:
    """The event recorder of one operator process."""

    def __init__(
        self, client: ApiClient, now: Callable[[], datetime], identity: str, *, busy: Callable[[], bool]
    ) -> None:
        """`busy()` tells whether anything more urgent is waiting."""
        self._client = client
        self._busy = busy
        self._flushing = False
        self._now = now
        self._identity = identity
        self._last = 0
        self._pending: asyncio.Queue[_PendingEvent] = asyncio.Queue(MAX_PENDING)

    async def run(self) -> None:
        """Post pending events, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._post_all())

    async def flush(self, seconds: float) -> None:
        """Wait until everything is posted, but at most that long."""
        self._flushing = True
        try:
            await asyncio.wait_for(self._pending.join(), seconds)
        except TimeoutError:
            logger.info("events not posted", extra={"count": self._pending.qsize()})

    def event(self, cached: CachedJob, event: Event) -> None:
        """Queue an event about a job, to be posted soon."""
        self._last = max(self._last + 1, time.time_ns())
        name = f"{cached.name}.{self._last:x}"
        since, now = asyncio.get_running_loop().time(), self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            self._pending.put_nowait(_PendingEvent(since, cached.namespace, cached.name, cached.uid, name, now, event))
        except asyncio.QueueFull:
            logger.info("event dropped", extra={"job": f"{cached.namespace}/{cached.name}", "reason": event.reason})

    async def _post_all(self) -> None:
        while True:
            one = await self._pending.get()
            try:
                await self._wait_for_jobs(one.since + MAX_WAIT_SECONDS)
                await self._client.create(EVENTS, one.namespace, self._body(one))
            except KubeError as error:
                logger.info(
                    "event not posted",
                    extra={"event": one.name, "reason": one.event.reason, "error": error.message},
                )
            finally:
                self._pending.task_done()

    def _body(self, one: _PendingEvent) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": one.name, "namespace": one.namespace},
            "involvedObject": {
                "apiVersion": JOBS.api_version,
                "kind": "DistributedTrainingJob",
                "namespace": one.namespace,
                "name": one.job,
                "uid": one.uid,
            },
            "type": one.event.type,
            "reason": one.event.reason,
            "message": one.event.message[:MAX_MESSAGE_LENGTH],
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._identity,
            "firstTimestamp": one.at,
            "lastTimestamp": one.at,
            "count": 1,
        }

    async def _wait_for_jobs(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        while self._busy() and not self._flushing and loop.time() < until:  # noqa: ASYNC110  (nothing signals it)
            await asyncio.sleep(CHECK_SECONDS)
