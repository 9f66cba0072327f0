"""ObjectControl: creates, adopts and deletes the pods and the service of a job.

The server's responses go into the cache at once. Every write is safe to repeat after a crash at any point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dtj_operator.cache.job_cache import read_live
from dtj_operator.cache.transforms import controller_reference
from dtj_operator.controller.blocked_write_tracker import blocked_reason
from dtj_operator.kube.errors import AlreadyExists, Conflict, NotFound, OutcomeUnknown, Refused, Retry
from dtj_operator.kube.resources import PODS
from dtj_operator.reconcile.state.blocked_writes import BlockedReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dtj_operator.cache.job_cache import CachedJob, JobCache
    from dtj_operator.cache.namespaced_name import NamespacedName
    from dtj_operator.controller.metrics import Metrics
    from dtj_operator.kube.client import ApiClient
    from dtj_operator.kube.resources import GroupVersionResource

KIND = "DistributedTrainingJob"


class CreationBlocked(Exception):
    """The API server refuses to create an object; somebody has to change something first."""

    def __init__(self, reason: BlockedReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class NameTaken(CreationBlocked):
    """An object of that name exists and belongs to somebody else."""

    def __init__(self, resource: GroupVersionResource, name: str, owner: Mapping[str, Any]) -> None:
        whose = f"{owner.get('kind')} {owner.get('name')}" if owner else "nobody"
        message = f"{resource.singular} {name} exists and belongs to {whose}: delete or rename it"
        super().__init__(BlockedReason.NAME_TAKEN, message)


class ObjectControl:
    """The writer of the pods and services of all jobs, through one client."""

    def __init__(self, client: ApiClient, cache: JobCache, metrics: Metrics) -> None:
        self._client = client
        self._cache = cache
        self._metrics = metrics

    async def create(
        self, resource: GroupVersionResource, key: NamespacedName, cached: CachedJob, body: dict[str, Any]
    ) -> None:
        """Create a pod or service of a job, or adopt the one that exists. Raises CreationBlocked, KubeError."""
        name = body["metadata"]["name"]
        try:
            answer = await self._client.create(resource, key.namespace, body)
        except (AlreadyExists, OutcomeUnknown) as error:
            found = await read_live(self._client, resource, key.namespace, name)
            if found is None and isinstance(error, OutcomeUnknown) and error.webhook:
                raise CreationBlocked(BlockedReason.POD_REFUSED, error.message) from error
            if found is None:
                msg = f"{resource.plural} {name}: {error.message}"
                raise Retry(msg) from error
            self._adopt(resource, key, cached, found)
            if resource is PODS and isinstance(error, OutcomeUnknown):
                # The response was lost, the pod was not.
                self._metrics.record_pod_created()
            return
        except Refused as refusal:
            raise CreationBlocked(blocked_reason(refusal), refusal.message) from refusal
        self._cache.indexer(resource).upsert(answer)
        if resource is PODS:
            self._metrics.record_pod_created()

    async def create_unwatched(
        self, resource: GroupVersionResource, key: NamespacedName, cached: CachedJob, body: dict[str, Any]
    ) -> None:
        """Create an object of a job that the cache does not keep. Raises CreationBlocked, KubeError."""
        try:
            await self._client.create(resource, key.namespace, body)
        except AlreadyExists:
            found = await self._client.get(resource, key.namespace, key.name)
            owner = controller_reference(found["metadata"])
            if owner.get("uid") != cached.uid:
                raise NameTaken(resource, key.name, owner) from None
        except Refused as refusal:
            raise CreationBlocked(blocked_reason(refusal), refusal.message) from refusal

    async def delete(
        self, resource: GroupVersionResource, key: NamespacedName, name: str, uid: str, grace: int | None
    ) -> None:
        """Delete the object with this UID, which may be gone already. Raises KubeError."""
        indexer = self._cache.indexer(resource)
        try:
            answer = await self._client.delete(resource, key.namespace, name, uid=uid, grace=grace)
        except NotFound:
            indexer.remove(uid)
            return
        except Conflict:
            await self._cache.refresh(self._client, resource, key.namespace, name, uid)
            return
        if answer.get("kind") == "Status" or not _is_terminating(answer):
            indexer.remove(uid)
        else:
            indexer.upsert(answer)

    def _adopt(
        self, resource: GroupVersionResource, key: NamespacedName, cached: CachedJob, found: dict[str, Any]
    ) -> None:
        """Take in an object of that name that exists already. Raises NameTaken where it is not this job's, Retry."""
        indexer = self._cache.indexer(resource)
        name = found["metadata"]["name"]
        owner = controller_reference(found["metadata"])
        self._cache.take_live(resource, found)
        in_cache = indexer.get(key, name) is not None
        if owner.get("uid") == cached.uid and in_cache:
            return
        if owner.get("kind") == KIND and owner.get("name") == key.name and in_cache:
            msg = f"{name} is left from an earlier job of this name and has not gone yet"
            raise Retry(msg)
        raise NameTaken(resource, name, owner)


def _is_terminating(raw: dict[str, Any]) -> bool:
    """Tell whether a deleted object still exists, for its grace period or its finalizers."""
    metadata = raw.get("metadata") or {}
    if not metadata.get("deletionTimestamp"):
        return False
    return bool(metadata.get("finalizers")) or metadata.get("deletionGracePeriodSeconds") != 0
