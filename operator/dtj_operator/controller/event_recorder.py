"""Kubernetes events about jobs. Best effort: a lost event changes nothing.

They are posted in the background, two at a time, and wait a little while jobs are in line, so that a thousand
jobs that start together get their pods first and their events after.
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
LONGEST_MESSAGE = 1024
"""Characters the API server accepts in an event's message."""

AT_ONCE = 2
PATIENCE_SECONDS = 30.0
"""How long an event gives way to jobs in line."""
LOOK_SECONDS = 0.1
MOST_WAITING = 10_000
"""Beyond that the newest are dropped: somebody is in a storm, and events are not what they need."""


class _Waiting(NamedTuple):
    """An event in line. Thousands may be, so it gets its wire form, ten times as large, only when it is posted."""

    since: float
    """Loop time."""
    namespace: str
    job: str
    uid: str
    name: str
    at: str
    event: Event


class Recorder:
    """Posts events in the name of one operator process."""

    def __init__(
        self, client: ApiClient, now: Callable[[], datetime], identity: str, *, busy: Callable[[], bool]
    ) -> None:
        """`busy`: whether anything more urgent is waiting."""
        self._client = client
        self._busy = busy
        self._flushing = False
        self._now = now
        self._identity = identity
        self._last = 0
        self._waiting: asyncio.Queue[_Waiting] = asyncio.Queue(MOST_WAITING)

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

    def record(self, cached: CachedJob, event: Event) -> None:
        """Have one event posted on a job."""
        self._last = max(self._last + 1, time.time_ns())
        name = f"{cached.name}.{self._last:x}"
        since, now = asyncio.get_running_loop().time(), self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            self._waiting.put_nowait(_Waiting(since, cached.namespace, cached.name, cached.uid, name, now, event))
        except asyncio.QueueFull:
            logger.info("event dropped", extra={"job": f"{cached.namespace}/{cached.name}", "reason": event.reason})

    async def _post_all(self) -> None:
        while True:
            one = await self._waiting.get()
            try:
                await self._give_way(one.since + PATIENCE_SECONDS)
                await self._client.create(EVENTS, one.namespace, self._body(one))
            except KubeError as error:
                logger.info(
                    "event not posted",
                    extra={"event": one.name, "reason": one.event.reason, "error": error.message},
                )
            finally:
                self._waiting.task_done()

    def _body(self, one: _Waiting) -> dict[str, Any]:
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
            "message": one.event.message[:LONGEST_MESSAGE],
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._identity,
            "firstTimestamp": one.at,
            "lastTimestamp": one.at,
            "count": 1,
        }

    async def _give_way(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        while self._busy() and not self._flushing and loop.time() < until:  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(LOOK_SECONDS)
