"""VanishedPods: reads a pod that was observed and is not in the cache, before it counts as gone.

The watch calls a pod deleted that only lost its label, and no list that a new operator makes contains it. What is found
is put into the cache.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dtj_operator.cache.job_cache import read_live
from dtj_operator.cache.transforms import controller_reference
from dtj_operator.kube.resources import PODS
from dtj_operator.reconcile.state.replicas import observed_pods

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dtj_operator.api.job import Job
    from dtj_operator.cache.job_cache import JobCache
    from dtj_operator.cache.namespaced_name import NamespacedName
    from dtj_operator.kube.client import ApiClient

MAX_CONCURRENT_READS = 8
"""Of one job."""


class VanishedPods:
    """The pods of all jobs that are known to be gone."""

    def __init__(self, client: ApiClient, cache: JobCache) -> None:
        self._client = client
        self._cache = cache
        self._gone: dict[NamespacedName, set[str]] = {}
        """By job, the names of pods that were observed and are not in the cache, and were read to be sure."""

    def forget(self, key: NamespacedName) -> None:
        """Forget a job that is gone."""
        self._gone.pop(key, None)

    async def find(self, key: NamespacedName, job: Job, created: Iterable[str]) -> None:
        """Read each pod of a job that should be in the cache and is not. Raises KubeError.

        `created`: names of pods that this process has created and status has not observed yet.
        """
        if job.status.finished:
            self.forget(key)
            return
        missing = {name for name in (*observed_pods(job), *created) if self._cache.pods.get(key, name) is None}
        unsure = missing - self._gone.get(key, set())
        if missing:
            self._gone[key] = missing - unsure
        else:
            self.forget(key)
        turn = asyncio.Semaphore(MAX_CONCURRENT_READS)

        async def read(name: str) -> None:
            async with turn:
                found = await read_live(self._client, PODS, key.namespace, name)
            if found is not None and controller_reference(found["metadata"]).get("uid") == job.uid:
                self._cache.take_live(PODS, found)
            else:
                self._gone[key].add(name)

        for result in await asyncio.gather(*(read(name) for name in unsure), return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
