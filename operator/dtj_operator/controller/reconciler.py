"""Reconciler: one job's snapshot, decision, status and plan."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.api.status import JobStatus
from dtj_operator.api.unknown_fields import keep_unknown_fields
from dtj_operator.reconcile.decide import decide
from dtj_operator.reconcile.later_status import report_later_status
from dtj_operator.reconcile.state.plan import CreatePod, CreateService, StatusWrite
from dtj_operator.reconcile.state.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from dtj_operator.api.job import Job
    from dtj_operator.cache.job_cache import JobCache
    from dtj_operator.cache.namespaced_name import NamespacedName
    from dtj_operator.cache.node_monitor import NodeMonitor, NoNodes
    from dtj_operator.cache.profiles import Profiles
    from dtj_operator.controller.blocked_write_tracker import BlockedWriteTracker
    from dtj_operator.controller.plan_executor import PlanExecutor
    from dtj_operator.controller.trainer_poller import TrainerReport
    from dtj_operator.controller.vanished_pods import VanishedPods
    from dtj_operator.controller.workqueue import WorkQueue
    from dtj_operator.reconcile.state.plan import Plan

STATUS_DELAY_SECONDS = 1.0
"""How long a status that differs in counts alone waits, so that several changes become one write."""
MIN_REQUEUE = timedelta(milliseconds=20)
"""Least delay of a planned reconciliation, so that a time just past does not cause a busy loop."""


class Reconciler:
    """The reconciler of one job at a time. Its only memory is since when the status of a job waits to be written."""

    def __init__(
        self,
        *,
        cache: JobCache,
        blocked_writes: BlockedWriteTracker,
        executor: PlanExecutor,
        vanished: VanishedPods,
        queue: WorkQueue,
        now: Callable[[], datetime],
        nodes: NodeMonitor | NoNodes,
        profiles: Profiles,
        report: Callable[[NamespacedName, str], TrainerReport],
    ) -> None:
        """`report(key, uid)` returns the latest response of that job's success pod."""
        self._report = report
        self._cache = cache
        self._blocked_writes = blocked_writes
        self._executor = executor
        self._vanished = vanished
        self._queue = queue
        self._now = now
        self._nodes = nodes
        self._profiles = profiles
        self._delayed_since: dict[NamespacedName, float] = {}

    async def reconcile(self, key: NamespacedName) -> bool:
        """Reconcile one job. Returns whether it has been requeued. Raises StaleCache, KubeError."""
        cached = self._cache.job(key)
        if cached is None or cached.deleting:
            # The garbage collector deletes what the job owns.
            self._delayed_since.pop(key, None)
            self._blocked_writes.forget(key)
            self._executor.forget_created(key)
            self._vanished.forget(key)
            return False
        job = cached.parse()
        if not job.managed_by_external_controller:
            if job.later_status:
                reported = report_later_status(cached.status, job.later_status, self._now())
                await self._executor.write_status(key, cached, reported)
                return False
            await self._vanished.find(key, job, self._executor.created_attempts(key, job.uid))
        merged, profile_hash = await self._profiles.apply(job)
        plan, nodes_requeue_at = self._decide(key, merged, profile_hash)
        if plan.status is None:
            return False
        # Ordered before anything can fail: a deadline does not wait for the end of a backoff.
        requeued = self._requeue_at(key, plan.requeue_at, nodes_requeue_at)
        wrote = False
        if plan.status is not job.status:
            if plan.write is StatusWrite.DELAYED and not plan.actions and not plan.events:
                remaining = self._remaining_delay(key)
                if remaining > 0:
                    self._queue.add_after(key, remaining)
                    return True
            status = keep_unknown_fields(JobStatus, cached.status, plan.status.wire())
            wrote = await self._executor.write_status(key, cached, status)
        elif not plan.actions:
            self._executor.forget_created(key)
        self._delayed_since.pop(key, None)
        if plan.actions or plan.events:
            # The service and the pods are built from what has just been persisted.
            current = self._cache.job(key) if wrote else cached
            if current is None or current.uid != cached.uid:
                return False
            persisted = self._profiles.apply_used(current.parse() if wrote else job)
            if await self._executor.execute(key, current, persisted, plan):
                self._queue.add(key)
                requeued = True
        return requeued

    def _decide(self, key: NamespacedName, job: Job, profile_hash: str | None) -> tuple[Plan, datetime | None]:
        """Return the plan, and when the nodes may have changed by time alone."""
        now = self._now()
        pods = tuple(self._cache.pods.values(key))
        names = frozenset(pod.node for pod in pods if pod.node)
        nodes, nodes_requeue_at = self._nodes.health(names, job.spec.failure_policy.node_loss_seconds)
        report = self._report(key, job.uid)
        snapshot = Snapshot(
            job=job,
            pods=pods,
            service=self._cache.service(key),
            blocked_writes=self._blocked_writes.of(key, job.uid),
            nodes=nodes,
            node_count=self._nodes.count(),
            profile_hash=profile_hash,
            used_profile_known=self._profiles.knows(job.status.profile_hash),
            progress=report.progress,
            recoveries=report.recoveries,
            created_attempts=self._executor.created_attempts(key, job.uid),
        )
        plan = decide(snapshot, now)
        if snapshot.blocked_writes:
            creations = [action for action in plan.actions if isinstance(action, (CreatePod, CreateService))]
            desired = {_object_name(key, action) for action in creations}
            if self._blocked_writes.prune(key, job.uid, desired, now):
                plan = decide(replace(snapshot, blocked_writes=self._blocked_writes.of(key, job.uid)), now)
        return plan, nodes_requeue_at

    def _remaining_delay(self, key: NamespacedName) -> float:
        """Return the seconds that a status which differs in counts alone still waits."""
        now = asyncio.get_running_loop().time()
        return STATUS_DELAY_SECONDS - (now - self._delayed_since.setdefault(key, now))

    def _requeue_at(self, key: NamespacedName, *times: datetime | None) -> bool:
        """Requeue the job at the earliest of these times. Returns whether there is one."""
        earliest = min((at for at in times if at is not None), default=None)
        if earliest is None:
            return False
        self._queue.add_after(key, max(earliest - self._now(), MIN_REQUEUE).total_seconds())
        return True


def _object_name(key: NamespacedName, action: CreatePod | CreateService) -> str:
    if isinstance(action, CreatePod):
        return f"{key.name}-{action.role}-{action.index}"
    return key.name
