"""Carry out a plan: status, then events (which wait for their turn), then deletions, then creations.

The server's answers go into the cache at once. A step that fails stops the later ones; the next pass
decides anew. Every write is safe to repeat after a crash at any point.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from dtj_operator.builders.node_affinity import prefer_other_nodes
from dtj_operator.builders.pod import build_pod
from dtj_operator.builders.service import build_service
from dtj_operator.controller.blocked_write_tracker import classify
from dtj_operator.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, OutcomeUnknown, Refused, Retry
from dtj_operator.kube.merge_patch import create_merge_patch
from dtj_operator.kube.resources import JOBS, PODS, SERVICES
from dtj_operator.reconcile.state.blocked_writes import BlockedReason, too_early
from dtj_operator.reconcile.state.plan import CreatePod, CreateService, DeleteJob, DeletePod, DeleteService

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from datetime import datetime

    from dtj_operator.api.job import Job
    from dtj_operator.cache.indexer import Indexer
    from dtj_operator.cache.job_cache import CachedJob, JobCache
    from dtj_operator.cache.namespaced_name import NamespacedName
    from dtj_operator.controller.blocked_write_tracker import Ledger
    from dtj_operator.controller.event_recorder import Recorder
    from dtj_operator.controller.metrics import Metrics
    from dtj_operator.kube.client import ApiClient
    from dtj_operator.kube.resources import GroupVersionResource
    from dtj_operator.reconcile.state.plan import Plan

logger = logging.getLogger(__name__)

AT_ONCE = 8
"""Creations or deletions of one job that are under way at the same time."""
KIND = "DistributedTrainingJob"


class Stale(Exception):
    """The plan was made from an old view; the cache has the new one now."""


class Executor:
    """Carries out plans through one client."""

    def __init__(
        self,
        *,
        client: ApiClient,
        cache: JobCache,
        ledger: Ledger,
        recorder: Recorder,
        now: Callable[[], datetime],
        metrics: Metrics,
        policies: Sequence[tuple[GroupVersionResource, Callable[[Job], dict[str, Any]]]],
    ) -> None:
        """`policies`: what each job gets before its service and its pods, by its own name; never looked at again."""
        self._client = client
        self._cache = cache
        self._ledger = ledger
        self._recorder = recorder
        self._now = now
        self._metrics = metrics
        self._policies = policies
        self._made: dict[NamespacedName, tuple[str, dict[str, int]]] = {}
        """By job, and only for the job of that UID."""

    def made(self, key: NamespacedName, uid: str) -> dict[str, int]:
        """Attempts, by name, of the pods that were created for that job since it was `settled`."""
        job, attempts = self._made.get(key, ("", {}))
        return attempts if job == uid else {}

    def settled(self, key: NamespacedName) -> None:
        """Status says all that there is to say of that job's pods, or the job is gone."""
        self._made.pop(key, None)

    async def write_status(self, key: NamespacedName, cached: CachedJob, status: dict[str, Any]) -> bool:
        """Make the stored status equal to `status`; returns whether a write was needed.

        Raises Stale when the job has changed meanwhile, KubeError otherwise.
        """
        before = cached.status
        patch = create_merge_patch(before, status)
        if not patch:
            return False
        body = {"metadata": {"resourceVersion": cached.resource_version}, "status": patch}
        try:
            answer = await self._client.patch_status(JOBS, key.namespace, key.name, body)
        except (Conflict, OutcomeUnknown, NotFound) as error:
            found = await self._refresh(JOBS, self._cache.jobs, key, key.name, cached.uid)
            landed = (
                isinstance(error, OutcomeUnknown)
                and found is not None
                and found["metadata"]["uid"] == cached.uid
                and not create_merge_patch(found.get("status") or {}, status)
            )
            if not landed or found is None:
                raise Stale(error.message) from error
            answer = found
        self._cache.jobs.upsert(answer)
        if answer["metadata"]["resourceVersion"] == cached.resource_version:
            logger.warning("status write changed nothing", extra={"job": str(key), "fields": sorted(patch)})
            return False
        self._metrics.status_changed(before, answer.get("status") or {})
        return True

    async def act(self, key: NamespacedName, cached: CachedJob, job: Job, plan: Plan) -> bool:
        """Events, deletions, creations. Returns whether anything was written. Raises KubeError.

        What has happened stands in status by now: no later plan tells it again, whatever becomes of this one.
        """
        for event in plan.events:
            self._recorder.record(cached, event)
        deletions = [action for action in plan.actions if isinstance(action, (DeletePod, DeleteService, DeleteJob))]
        services = [action for action in plan.actions if isinstance(action, CreateService)]
        pods = [action for action in plan.actions if isinstance(action, CreatePod)]
        wrote = await _each(deletions, lambda action: self._delete(key, action))
        through = True
        if services:
            through = await self._create_policies(key, cached, job)
            wrote = True
        if services and through:
            through = await self._create(SERVICES, self._cache.services, key, cached, build_service(job))
        if pods and through:
            created = await self._create_pods(key, cached, job, pods)
            wrote = wrote or created
        return wrote

    async def _create_pods(self, key: NamespacedName, cached: CachedJob, job: Job, pods: list[CreatePod]) -> bool:
        refused = False

        async def create(action: CreatePod) -> bool:
            nonlocal refused
            body = build_pod(job, action.role, action.index, action.attempt)
            if action.avoid:
                body = prefer_other_nodes(body, action.avoid)
            name = body["metadata"]["name"]
            if refused:
                return False
            held = self._cache.pods.get(key, name)
            if held is not None and held.value.deleted_at is not None:
                # Deleted in this plan, but its kubelet has not let go yet: its end brings the next pass.
                return False
            if await self._create(PODS, self._cache.pods, key, cached, body):
                self._made[key] = (cached.uid, {**self.made(key, cached.uid), name: action.attempt})
            else:
                # A quota that is used up for one pod is used up for its peers: no volley of refusals. Whom it does not
                # concern comes in the next pass, which follows at once.
                refused = too_early(self._ledger.of(key, cached.uid), "", cached.generation, self._now())
            return True

        return await _each(pods, create)

    async def _create_policies(self, key: NamespacedName, cached: CachedJob, job: Job) -> bool:
        """Create what has to stand before the first pod. Returns whether all of it does."""
        for resource, build in self._policies:
            try:
                await self._client.create(resource, key.namespace, build(job))
            except AlreadyExists:
                found = await self._client.get(resource, key.namespace, key.name)
                if _controller(found).get("uid") != cached.uid:
                    self._taken(resource, key, cached, key.name, _controller(found))
                    return False
            except Refused as refusal:
                self._blocked(key, cached, classify(refusal), key.name, refusal.message)
                return False
        return True

    async def _create(
        self,
        resource: GroupVersionResource,
        shelf: Indexer[Any],
        key: NamespacedName,
        cached: CachedJob,
        body: dict[str, Any],
    ) -> bool:
        """Create one object. Returns whether it is there now and ours."""
        name = body["metadata"]["name"]
        try:
            answer = await self._client.create(resource, key.namespace, body)
        except (AlreadyExists, OutcomeUnknown) as error:
            found = await self._find(resource, key.namespace, name)
            if found is None and isinstance(error, OutcomeUnknown) and error.webhook:
                self._blocked(key, cached, BlockedReason.POD_REFUSED, name, error.message)
                return False
            if found is None:
                msg = f"{resource.plural} {name}: {error.message}"
                raise Retry(msg) from error
            ours = self._adopt(resource, shelf, key, cached, found)
            if ours and resource is PODS and isinstance(error, OutcomeUnknown):
                # The answer was lost, the pod was not.
                self._metrics.pod_created()
            return ours
        except Refused as refusal:
            self._blocked(key, cached, classify(refusal), name, refusal.message)
            return False
        shelf.upsert(answer)
        if resource is PODS:
            self._metrics.pod_created()
        self._cleared(key, cached, name)
        return True

    def _adopt(
        self,
        resource: GroupVersionResource,
        shelf: Indexer[Any],
        key: NamespacedName,
        cached: CachedJob,
        found: dict[str, Any],
    ) -> bool:
        """An object of that name exists already: ours from an earlier try, or somebody else's."""
        name = found["metadata"]["name"]
        owner = _controller(found)
        shelf.upsert(found)
        if owner.get("uid") == cached.uid and shelf.get(key, name) is not None:
            self._cleared(key, cached, name)
            return True
        former = owner.get("kind") == KIND and owner.get("name") == key.name
        if former and shelf.get(key, name) is not None:
            msg = f"{name} is left from an earlier job of this name and has not gone yet"
            raise Retry(msg)
        self._taken(resource, key, cached, name, owner)
        return False

    def _taken(
        self, resource: GroupVersionResource, key: NamespacedName, cached: CachedJob, name: str, owner: dict[str, Any]
    ) -> None:
        whose = f"{owner.get('kind')} {owner.get('name')}" if owner else "nobody"
        message = f"{resource.singular} {name} exists and belongs to {whose}: delete or rename it"
        self._blocked(key, cached, BlockedReason.NAME_TAKEN, name, message)

    def _blocked(self, key: NamespacedName, cached: CachedJob, kind: BlockedReason, target: str, message: str) -> None:
        if self._ledger.note(key, cached.uid, kind, target, message, cached.generation, self._now()):
            logger.warning(
                "creation refused", extra={"job": str(key), "target": target, "reason": str(kind), "error": message}
            )

    def _cleared(self, key: NamespacedName, cached: CachedJob, target: str) -> None:
        if self._ledger.clear(key, cached.uid, target):
            logger.info("creation succeeded after refusals", extra={"job": str(key), "target": target})

    async def _delete(self, key: NamespacedName, action: DeletePod | DeleteService | DeleteJob) -> bool:
        resource: GroupVersionResource
        shelf: Indexer[Any]
        if isinstance(action, DeletePod):
            resource, shelf, name = PODS, self._cache.pods, action.name
        elif isinstance(action, DeleteService):
            resource, shelf, name = SERVICES, self._cache.services, key.name
        else:
            resource, shelf, name = JOBS, self._cache.jobs, key.name
        grace = 0 if isinstance(action, DeletePod) and action.force else None
        try:
            answer = await self._client.delete(resource, key.namespace, name, uid=action.uid, grace=grace)
        except NotFound:
            shelf.remove(key, name, action.uid)
            return True
        except Conflict:
            await self._refresh(resource, shelf, key, name, action.uid)
            return True
        if answer.get("kind") == "Status" or not _lingers(answer):
            shelf.remove(key, name, action.uid)
        else:
            shelf.upsert(answer)
        return True

    async def _refresh(
        self, resource: GroupVersionResource, shelf: Indexer[Any], key: NamespacedName, name: str, uid: str
    ) -> dict[str, Any] | None:
        """Read one object again into the cache; what was cached under `uid` goes if another has its name."""
        found = await self._find(resource, key.namespace, name)
        if found is None or found["metadata"]["uid"] != uid:
            shelf.remove(key, name, uid)
        if found is not None:
            shelf.upsert(found)
        return found

    async def _find(self, resource: GroupVersionResource, namespace: str, name: str) -> dict[str, Any] | None:
        try:
            return await self._client.get(resource, namespace, name)
        except NotFound:
            return None


async def _each(items: Iterable[Any], act: Callable[[Any], Awaitable[bool]]) -> bool:
    """Do all, a few at a time. Returns whether any returned True; raises the first KubeError when all have ended."""
    line = list(items)
    if not line:
        return False
    if len(line) == 1:
        return await act(line[0])
    errors: list[KubeError] = []
    any_true = False
    rest = iter(line)

    async def drain() -> None:
        nonlocal any_true
        for item in rest:
            try:
                result = await act(item)
                any_true = any_true or result
            except KubeError as error:
                errors.append(error)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(AT_ONCE, len(line))):
            group.create_task(drain())
    if errors:
        raise errors[0]
    return any_true


def _controller(raw: dict[str, Any]) -> dict[str, Any]:
    """The controller reference, or nothing."""
    references: list[dict[str, Any]] = raw["metadata"].get("ownerReferences") or []
    return next((reference for reference in references if reference.get("controller")), {})


def _lingers(raw: dict[str, Any]) -> bool:
    """Whether a deleted object is still there: it has a grace period or finalizers to go through."""
    metadata = raw.get("metadata") or {}
    if not metadata.get("deletionTimestamp"):
        return False
    return bool(metadata.get("finalizers")) or metadata.get("deletionGracePeriodSeconds") != 0
