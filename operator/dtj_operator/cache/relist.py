"""A periodic full list: whatever a watch has missed is found here, deletions above all."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Any

from dtj_operator.cache.reflector import list_into
from dtj_operator.kube.errors import KubeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dtj_operator.cache.indexer import Shelf
    from dtj_operator.kube.client import ApiClient
    from dtj_operator.kube.resources import GroupVersionResource

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 300.0
RETRY_SECONDS = 5.0
SETTLE_SECONDS = 2.0
"""After a relist has been noticed, until the list that checks it."""
STALE_PERIODS = 3


class Resync:
    """Lists one kind anew every five minutes, and soon after `nudge`."""

    def __init__(
        self,
        client: ApiClient,
        resource: GroupVersionResource,
        namespaces: Sequence[str | None],
        indexer: Shelf[Any],
        *,
        labels: str = "",
    ) -> None:
        self._client = client
        self._resource = resource
        self._namespaces = namespaces
        self._indexer = indexer
        self._labels = labels
        self._nudged = asyncio.Event()
        self._succeeded_at = asyncio.get_running_loop().time()

    def nudge(self) -> None:
        """Somebody has reconnected and may have missed deletions."""
        self._nudged.set()

    @property
    def fresh(self) -> bool:
        """Whether a list has succeeded within three periods, or the process is not older than that."""
        return asyncio.get_running_loop().time() - self._succeeded_at < STALE_PERIODS * PERIOD_SECONDS

    async def once(self) -> None:
        """List everything now. Raises KubeError."""
        for namespace in self._namespaces:
            await list_into(self._client, self._resource, namespace, self._indexer, self._labels)
        self._succeeded_at = asyncio.get_running_loop().time()

    async def run(self) -> None:
        """Repeat until cancelled."""
        wait = PERIOD_SECONDS
        while True:
            try:
                await asyncio.wait_for(self._nudged.wait(), wait * random.uniform(0.9, 1.1))
                await asyncio.sleep(SETTLE_SECONDS)
            except TimeoutError:
                pass
            self._nudged.clear()
            try:
                await self.once()
                wait = PERIOD_SECONDS
            except KubeError as error:
                logger.warning("resync failed", extra={"kind": self._resource.plural, "error": error.message})
                wait = RETRY_SECONDS
