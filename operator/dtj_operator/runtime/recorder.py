"""Kubernetes events about jobs. Best effort: a lost event changes nothing."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

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


class Recorder:
    """Posts events in the name of one operator process."""

    def __init__(self, client: ApiClient, clock: Clock, identity: str) -> None:
        self._client = client
        self._clock = clock
        self._identity = identity
        self._last = 0

    async def post(self, known: KnownJob, event: Event) -> None:
        """Post one event on a job; failure is logged."""
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
            await self._client.create(EVENTS, known.namespace, body)
        except KubeError as error:
            logger.info(
                "event not posted",
                extra={"job": f"{known.namespace}/{known.name}", "reason": event.reason, "error": error.message},
            )
