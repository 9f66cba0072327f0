"""Relister: a periodic full list that finds whatever a watch has missed, above all deletions."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Any

from dtj_operator.cache.reflector import list_into
from dtj_operator.kube.errors import KubeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dtj_operator.cache.indexer import Indexer
    from dtj_operator.kube.client import ApiClient
    from dtj_operator.kube.resources import GroupVersionResource

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 300.0
RETRY_SECONDS = 5.0
SETTLE_SECONDS = 2.0
"""Between `relist_soon` and the list."""
HEALTHY_PERIODS = 3


class Relister:
    """A periodic lister of one kind: every five minutes, and soon after `relist_soon`."""

    def __init__(
        self,
        client: ApiClient,
        resource: GroupVersionResource,
        namespaces: Sequence[str | None],
        indexer: Indexer[Any],
        *,
        labels: str = "",
    ) -> None:
        self._client = client
        self._resource = resource
        self._namespaces = namespaces
        self._indexer = indexer
        self._labels = labels
        self._wanted = asyncio.Event()
        self._succeeded_at = asyncio.get_running_loop().time()

    def relist_soon(self) -> None:
        """Order a list, because a watch has reconnected and may have missed deletions."""
        self._wanted.set()

    @property
    def healthy(self) -> bool:
        """Whether a list has succeeded within three periods, or the process is not older than that."""
        return asyncio.get_running_loop().time() - self._succeeded_at < HEALTHY_PERIODS * PERIOD_SECONDS

    async def relist(self) -> None:
        """List everything now. Raises KubeError."""
        for namespace in self._namespaces:
            await list_into(self._client, self._resource, namespace, self._indexer, self._labels)
        self._succeeded_at = asyncio.get_running_loop().time()

    async def run(self) -> None:
        """List periodically, until cancelled."""
        wait = PERIOD_SECONDS
        while True:
            try:
                await asyncio.wait_for(self._wanted.wait(), wait * random.uniform(0.9, 1.1))
                await asyncio.sleep(SETTLE_SECONDS)
            except TimeoutError:
                pass
            self._wanted.clear()
            try:
                await self.relist()
                wait = PERIOD_SECONDS
            except KubeError as error:
                logger.warning("relist failed", extra={"kind": self._resource.plural, "error": error.message})
                wait = RETRY_SECONDS
