"""PlanExecutor: carries out a plan. Status first, then events (posted in the background), deletions, creations.

A step that fails stops the later ones, and the next reconciliation decides again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from dtj_operator.builders.node_affinity import prefer_other_nodes
from dtj_operator.builders.pod import build_pod
from dtj_operator.builders.service import build_service
from dtj_operator.controller.object_control import CreationBlocked
from dtj_operator.kube.errors import Conflict, KubeError, NotFound, OutcomeUnknown
from dtj_operator.kube.merge_patch import create_merge_patch
from dtj_operator.kube.resources import JOBS, PODS, SERVICES
from dtj_operator.reconcile.state.blocked_writes import too_early
from dtj_operator.reconcile.state.plan import CreatePod, CreateService, DeleteJob, DeletePod, DeleteService

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from datetime import datetime

    from dtj_operator.api.job import Job
    from dtj_operator.cache.job_cache import CachedJob, JobCache
    from dtj_operator.cache.namespaced_name import NamespacedName
    from dtj_operator.controller.blocked_write_tracker import BlockedWriteTracker
    from dtj_operator.controller.event_recorder import EventRecorder
    from dtj_operator.controller.metrics import Metrics
    from dtj_operator.controller.object_control import ObjectControl
    from dtj_operator.kube.client import ApiClient
    from dtj_operator.kube.resources import GroupVersionResource
    from dtj_operator.reconcile.state.plan import Plan

logger = logging.getLogger(__name__)

MAX_CONCURRENT_WRITES = 8
"""Concurrent creations or deletions of one job."""


class StaleCache(Exception):
    """The plan was made from an outdated job; the cache has the newer one now."""


class PlanExecutor:
    """The executor of the plans of all jobs."""

    def __init__(
        self,
        *,
        client: ApiClient,
        cache: JobCache,
        objects: ObjectControl,
        blocked_writes: BlockedWriteTracker,
        events: EventRecorder,
        now: Callable[[], datetime],
        metrics: Metrics,
        prerequisites: Sequence[tuple[GroupVersionResource, Callable[[Job], dict[str, Any]]]],
    ) -> None:
        """`prerequisites` are created for each job before its service and its pods, and never read again."""
        self._client = client
        self._cache = cache
        self._objects = objects
        self._blocked_writes = blocked_writes
        self._events = events
        self._now = now
        self._metrics = metrics
        self._prerequisites = prerequisites
        self._created: dict[NamespacedName, tuple[str, dict[str, int]]] = {}
        """By job, with the UID of the job: the attempts of pods that were created."""

    def created_attempts(self, key: NamespacedName, uid: str) -> dict[str, int]:
        """Return the attempts, by pod name, of the pods that were created since `forget_created`."""
        job, attempts = self._created.get(key, ("", {}))
        return attempts if job == uid else {}

    def forget_created(self, key: NamespacedName) -> None:
        """Forget the created pods of a job, because its status counts them or the job is gone."""
        self._created.pop(key, None)

    async def write_status(self, key: NamespacedName, cached: CachedJob, status: dict[str, Any]) -> bool:
        """Make the stored status equal to `status`. Returns whether a write was needed.

        Raises StaleCache when the job has changed meanwhile, KubeError otherwise.
        """
        before = cached.status
        patch = create_merge_patch(before, status)
        if not patch:
            return False
        body = {"metadata": {"resourceVersion": cached.resource_version}, "status": patch}
        try:
            answer = await self._client.patch_status(JOBS, key.namespace, key.name, body)
        except (Conflict, OutcomeUnknown, NotFound) as error:
            found = await self._cache.refresh(self._client, JOBS, key.namespace, key.name, cached.uid)
            written = (
                isinstance(error, OutcomeUnknown)
                and found is not None
                and found["metadata"]["uid"] == cached.uid
                and not create_merge_patch(found.get("status") or {}, status)
            )
            if not written or found is None:
                raise StaleCache(error.message) from error
            answer = found
        self._cache.jobs.upsert(answer)
        if answer["metadata"]["resourceVersion"] == cached.resource_version:
            logger.warning("status write changed nothing", extra={"job": str(key), "fields": sorted(patch)})
            return False
        self._metrics.record_status_change(before, answer.get("status") or {})
        return True

    async def execute(self, key: NamespacedName, cached: CachedJob, job: Job, plan: Plan) -> bool:
        """Post events, delete, create. Returns whether anything was written. Raises KubeError.

        The status says by now what has happened, so no later plan has these events again, even if this one fails.
        """
        for event in plan.events:
            self._events.event(cached, event)
        deletions = [action for action in plan.actions if isinstance(action, (DeletePod, DeleteService, DeleteJob))]
        services = [action for action in plan.actions if isinstance(action, CreateService)]
        pods = [action for action in plan.actions if isinstance(action, CreatePod)]
        wrote = await _for_each(deletions, lambda action: self._delete(key, action))
        may_go_on = True
        if services:
            may_go_on = await self._create_prerequisites(key, cached, job)
            wrote = True
        if services and may_go_on:
            may_go_on = await self._create(SERVICES, key, cached, build_service(job))
        if pods and may_go_on:
            created = await self._create_pods(key, cached, job, pods)
            wrote = wrote or created
        return wrote

    async def _create_pods(self, key: NamespacedName, cached: CachedJob, job: Job, pods: list[CreatePod]) -> bool:
        blocked = False

        async def create(action: CreatePod) -> bool:
            nonlocal blocked
            body = build_pod(job, action.role, action.index, action.attempt)
            if action.avoid:
                body = prefer_other_nodes(body, action.avoid)
            name = body["metadata"]["name"]
            if blocked:
                return False
            entry = self._cache.pods.get(key, name)
            if entry is not None and entry.value.deleted_at is not None:
                # Deleted in this plan and still terminating on its node: its end causes the next reconciliation.
                return False
            if await self._create(PODS, key, cached, body):
                self._created[key] = (cached.uid, {**self.created_attempts(key, cached.uid), name: action.attempt})
            else:
                # A quota that is used up for one pod is used up for the others: do not ask for each of them. Pods that
                # it does not concern are created in the next reconciliation, which follows at once.
                blocked = too_early(self._blocked_writes.of(key, cached.uid), "", cached.generation, self._now())
            return True

        return await _for_each(pods, create)

    async def _create_prerequisites(self, key: NamespacedName, cached: CachedJob, job: Job) -> bool:
        """Create what must exist before the first pod. Returns whether all of it does."""
        for resource, build in self._prerequisites:
            try:
                await self._objects.create_unwatched(resource, key, cached, build(job))
            except CreationBlocked as blocked:
                self._record_blocked(key, cached, key.name, blocked)
                return False
        return True

    async def _create(
        self, resource: GroupVersionResource, key: NamespacedName, cached: CachedJob, body: dict[str, Any]
    ) -> bool:
        """Create one object. Returns whether it exists now and is this job's."""
        name = body["metadata"]["name"]
        try:
            await self._objects.create(resource, key, cached, body)
        except CreationBlocked as blocked:
            self._record_blocked(key, cached, name, blocked)
            return False
        if self._blocked_writes.clear(key, cached.uid, name):
            logger.info("blocked creation succeeded", extra={"job": str(key), "target": name})
        return True

    async def _delete(self, key: NamespacedName, action: DeletePod | DeleteService | DeleteJob) -> bool:
        if isinstance(action, DeletePod):
            await self._objects.delete(PODS, key, action.name, action.uid, grace=0 if action.force else None)
        elif isinstance(action, DeleteService):
            await self._objects.delete(SERVICES, key, key.name, action.uid, grace=None)
        else:
            await self._objects.delete(JOBS, key, key.name, action.uid, grace=None)
        return True

    def _record_blocked(self, key: NamespacedName, cached: CachedJob, target: str, blocked: CreationBlocked) -> None:
        reason, message = blocked.reason, blocked.message
        if self._blocked_writes.record(key, cached.uid, reason, target, message, cached.generation, self._now()):
            logger.warning(
                "creation refused", extra={"job": str(key), "target": target, "reason": str(reason), "error": message}
            )


async def _for_each(items: Iterable[Any], write: Callable[[Any], Awaitable[bool]]) -> bool:
    """Write all items, a few at a time. Returns whether any returned True; raises the first KubeError at the end."""
    pending = list(items)
    if not pending:
        return False
    if len(pending) == 1:
        return await write(pending[0])
    errors: list[KubeError] = []
    any_true = False
    rest = iter(pending)

    async def work() -> None:
        nonlocal any_true
        for item in rest:
            try:
                result = await write(item)
                any_true = any_true or result
            except KubeError as error:
                errors.append(error)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(MAX_CONCURRENT_WRITES, len(pending))):
            group.create_task(work())
    if errors:
        raise errors[0]
    return any_true
