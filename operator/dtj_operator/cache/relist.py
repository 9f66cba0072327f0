"""Relister: a periodic list that finds whatever a watch has missed, above all deletions.

The list has the metadata of the objects alone: a thousand pods of 100 KB would be 100 MB. The few objects that turn out
to be newer than the cache are read one by one.
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dtj_operator.cache.reflector import list_into
from dtj_operator.kube.client import METADATA_ONLY
from dtj_operator.kube.errors import KubeError, NotFound

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
MAX_READS = 100
"""Objects that are read one by one; if more have been missed, all are listed."""


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
        """List everything now, and whole: for an indexer that is empty. Raises KubeError."""
        for namespace in self._namespaces:
            await list_into(self._client, self._resource, namespace, self._indexer, self._labels)
        self._succeeded_at = asyncio.get_running_loop().time()

    async def compare(self) -> None:
        """List metadata, and read what the watch has missed. Raises KubeError."""
        for namespace in self._namespaces:
            await self._compare(namespace)
        self._succeeded_at = asyncio.get_running_loop().time()

    async def _compare(self, namespace: str | None) -> None:
        uids: set[str] = set()
        newer: list[dict[str, Any]] = []
        resource_version = "0"
        async for page in self._client.list_pages(self._resource, namespace, labels=self._labels, accept=METADATA_ONLY):
            resource_version = page.resource_version
            uids.update(raw["metadata"]["uid"] for raw in page.items)
            newer += [_identity(raw) for raw in page.items if not self._indexer.is_known(raw)]
        self._indexer.remove_missing(namespace, uids, resource_version)
        # The watch brings most of them while the list is read.
        missed = [raw["metadata"] for raw in newer if not self._indexer.is_known(raw)]
        if len(missed) > MAX_READS:
            await list_into(self._client, self._resource, namespace, self._indexer, self._labels)
            return
        for metadata in missed:
            with suppress(NotFound):
                self._indexer.upsert(await self._client.get(self._resource, metadata["namespace"], metadata["name"]))

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
                await self.compare()
                wait = PERIOD_SECONDS
            except KubeError as error:
                logger.warning("relist failed", extra={"kind": self._resource.plural, "error": error.message})
                wait = RETRY_SECONDS


def _identity(raw: dict[str, Any]) -> dict[str, Any]:
    """Return what an indexer needs to tell an object and its version; managedFields and annotations are large."""
    kept = ("name", "namespace", "uid", "resourceVersion", "labels", "ownerReferences")
    return {"metadata": {name: raw["metadata"][name] for name in kept if name in raw["metadata"]}}
