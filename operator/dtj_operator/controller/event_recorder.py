"""EventRecorder: posts Kubernetes events about jobs. Best effort: a lost event changes nothing.

Events are posted in the background, two at a time. They wait a while for jobs in the work queue, so that a thousand
jobs that start together get their pods before their events. Many similar events become one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from dtj_operator.controller.event_aggregator import EventAggregator
from dtj_operator.kube.errors import AlreadyExists, KubeError
from dtj_operator.kube.resources import EVENTS, JOBS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from dtj_operator.cache.job_cache import CachedJob
    from dtj_operator.controller.event_aggregator import JoinedEvent
    from dtj_operator.kube.client import ApiClient
    from dtj_operator.reconcile.state.plan import Event

logger = logging.getLogger(__name__)

COMPONENT = "dtj-operator"
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
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
    joined: JoinedEvent | None
    """Set if this is the event that counts all similar ones after the first."""


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
        self._aggregator = EventAggregator()
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
        since, now = asyncio.get_running_loop().time(), self._now().strftime(TIME_FORMAT)
        joined = self._aggregator.join(cached.uid, event, since)
        if joined is not None:
            joined.add(event.message, now)
            if joined.pending:
                return
        self._last = max(self._last + 1, time.time_ns())
        name = f"{cached.name}.{self._last:x}"
        if joined is not None:
            name = joined.name = joined.name or name
        one = _PendingEvent(since, cached.namespace, cached.name, cached.uid, name, now, event, joined)
        try:
            self._pending.put_nowait(one)
            if joined is not None:
                joined.pending = True
        except asyncio.QueueFull:
            logger.info("event dropped", extra={"job": f"{cached.namespace}/{cached.name}", "reason": event.reason})

    async def _post_all(self) -> None:
        while True:
            one = await self._pending.get()
            try:
                await self._wait_for_jobs(one.since + MAX_WAIT_SECONDS)
                if one.joined is None:
                    await self._client.create(EVENTS, one.namespace, self._body(one))
                else:
                    await self._post_joined(one, one.joined)
            except KubeError as error:
                logger.info(
                    "event not posted",
                    extra={"event": one.name, "reason": one.event.reason, "error": error.message},
                )
            finally:
                if one.joined is not None:
                    one.joined.pending = False
                self._pending.task_done()

    async def _post_joined(self, one: _PendingEvent, joined: JoinedEvent) -> None:
        """Create the event, or write its new count; again if it has grown meanwhile."""
        while joined.posted_count < joined.count:
            count = joined.count
            counted = {
                "count": count,
                "message": joined.message[:MAX_MESSAGE_LENGTH],
                "lastTimestamp": joined.last_at,
            }
            if not joined.posted_count:
                # It exists if an earlier creation succeeded without an answer.
                with suppress(AlreadyExists):
                    await self._client.create(EVENTS, one.namespace, self._body(one) | counted)
                    joined.posted_count = count
                    continue
            await self._client.patch(EVENTS, one.namespace, one.name, counted)
            joined.posted_count = count

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
