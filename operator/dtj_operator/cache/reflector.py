"""Reflector: lists one kind, then watches it, into an Indexer."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Any

from dtj_operator.kube.errors import Gone, KubeError, Retry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dtj_operator.cache.indexer import Indexer
    from dtj_operator.kube.client import ApiClient, Page
    from dtj_operator.kube.resources import GroupVersionResource

logger = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 20.0


class Reflector:
    """A reflector: keeps an indexer up to date with one kind.

    It needs about a tenth of the processor time that kopf needs for the same event (measured), which is why pods,
    of which there are many, are watched by it.
    """

    def __init__(
        self,
        client: ApiClient,
        resource: GroupVersionResource,
        namespace: str | None,
        indexer: Indexer[Any],
        *,
        labels: str = "",
    ) -> None:
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._indexer = indexer
        self._labels = labels
        self.synced = asyncio.Event()

    async def run(self) -> None:
        """Watch until cancelled; no error of the API server ends this."""
        pause = FIRST_PAUSE_SECONDS
        relist_pause = 0.0
        """Before the next list; the first 410 after an event needs none."""
        since = ""
        while True:
            try:
                if not since:
                    since = await list_into(self._client, self._resource, self._namespace, self._indexer, self._labels)
                    self.synced.set()
                async for event in self._client.watch(
                    self._resource, self._namespace, since=since, labels=self._labels
                ):
                    if event.type == "DELETED":
                        self._indexer.delete(event.object)
                    elif event.type != "BOOKMARK":
                        self._indexer.upsert(event.object)
                    since = event.object["metadata"]["resourceVersion"]
                    pause, relist_pause = FIRST_PAUSE_SECONDS, 0.0
            except Gone:
                since = ""
                await asyncio.sleep(relist_pause * random.uniform(0.5, 1.0))
                relist_pause = min(MAX_PAUSE_SECONDS, max(FIRST_PAUSE_SECONDS, relist_pause * 2))
            except KubeError as error:
                if not isinstance(error, Retry):
                    since = ""
                logger.warning(
                    "watch interrupted",
                    extra={"kind": self._resource.plural, "error": error.message, "retry_seconds": round(pause, 1)},
                )
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(MAX_PAUSE_SECONDS, pause * 2)
            else:
                # The server ends every watch after its timeout; one that ends at once must not become a busy loop.
                await asyncio.sleep(0.05)


async def list_into(
    client: ApiClient, resource: GroupVersionResource, namespace: str | None, indexer: Indexer[Any], labels: str = ""
) -> str:
    """List everything into an indexer and remove the rest from it. Returns the resourceVersion to watch from."""
    uids: set[str] = set()
    resource_version = "0"
    async for page in _read_ahead(client.list_pages(resource, namespace, labels=labels)):
        resource_version = page.resource_version
        for raw in page.items:
            indexer.upsert(raw)
            uids.add(raw["metadata"]["uid"])
    indexer.remove_missing(namespace, uids, resource_version)
    return resource_version


async def _read_ahead(pages: AsyncIterator[Page]) -> AsyncIterator[Page]:
    """Yield the same pages, each while the server prepares the next."""
    upcoming = asyncio.ensure_future(anext(pages, None))
    try:
        while page := await upcoming:
            upcoming = asyncio.ensure_future(anext(pages, None))
            await asyncio.sleep(0)  # the request goes out
            yield page
    finally:
        upcoming.cancel()
