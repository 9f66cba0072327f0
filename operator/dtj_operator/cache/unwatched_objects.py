"""The reading of objects of jobs that the watches do not see, because they have lost their label."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from dtj_operator.kube.errors import KubeError
from dtj_operator.kube.resources import PODS, SERVICES

if TYPE_CHECKING:
    from dtj_operator.cache.job_cache import JobCache
    from dtj_operator.kube.client import ApiClient

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 5.0
PAUSE_SECONDS = 0.1
"""Between two reads: however many labels a tenant takes away, the API server is asked ten times a second at most."""


async def read_unwatched(client: ApiClient, cache: JobCache) -> None:
    """Read each of them every few seconds, until cancelled."""
    while True:
        for resource in (PODS, SERVICES):
            for key, name, uid in cache.indexer(resource).list_unwatched():
                try:
                    await cache.refresh(client, resource, key.namespace, name, uid)
                except KubeError as error:
                    logger.warning("object not read", extra={"object": name, "error": error.message})
                await asyncio.sleep(PAUSE_SECONDS)
        await asyncio.sleep(PERIOD_SECONDS)
