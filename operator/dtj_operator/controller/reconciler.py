"""One pass over one job: look, decide, act; and the loop that gives every job its turn."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.controller.plan_executor import Stale
from dtj_operator.kube.errors import KubeError, Refused, Retry
from dtj_operator.reconcile.decide import decide
from dtj_operator.reconcile.state.plan import CreatePod, CreateService, StatusWrite
from dtj_operator.reconcile.state.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from dtj_operator.api.job import Job
    from dtj_operator.api.status import Progress
    from dtj_operator.cache.job_cache import JobCache
    from dtj_operator.cache.namespaced_name import NamespacedName
    from dtj_operator.controller.blocked_write_tracker import Ledger
    from dtj_operator.controller.metrics import Metrics
    from dtj_operator.controller.plan_executor import Executor
    from dtj_operator.controller.workqueue import Queue
    from dtj_operator.reconcile.state.plan import Plan
    from dtj_operator.reconcile.state.snapshot import Node

logger = logging.getLogger(__name__)

HOLD_SECONDS = 1.0
"""How long a status that differs in counts alone waits for company; then it takes its turn in line as any other."""
SOONEST = timedelta(milliseconds=20)
"""Least time until a planned next look, so that a time just past cannot spin."""


class Reconciler:
    """Passes over jobs. Keeps nothing about a job but when its held status became due, and refusals."""

    def __init__(
        self,
        *,
        cache: JobCache,
        ledger: Ledger,
        executor: Executor,
        queue: Queue,
        now: Callable[[], datetime],
        metrics: Metrics,
        nodes: Callable[[frozenset[str], float], tuple[Mapping[str, Node], datetime | None]],
        progress: Callable[[NamespacedName, str], Progress | None],
    ) -> None:
        """`nodes(names, loss_seconds)`: what is cached of these nodes, and when that may change by time alone.

        `progress(key, uid)`: the latest answer of that job's success pod.
        """
        self._progress = progress
        self._cache = cache
        self._ledger = ledger
        self._executor = executor
        self._queue = queue
        self._now = now
        self._metrics = metrics
        self._nodes = nodes
        self._held_since: dict[NamespacedName, float] = {}

    async def work(self, at_once: int) -> None:
        """Give every key in the queue its turn, `at_once` jobs at a time, until the queue is closed."""
        slots = asyncio.Semaphore(at_once)
        passes: set[asyncio.Task[None]] = set()
        try:
            while True:
                await slots.acquire()
                key = await self._queue.take()
                task = asyncio.create_task(self._turn(key))
                passes.add(task)
                task.add_done_callback(passes.discard)
                task.add_done_callback(lambda _task: slots.release())
        finally:
            # Cancelled from outside: what has been begun is finished, as a half-done pass costs a later one.
            if passes:
                await asyncio.wait(passes)

    async def _turn(self, key: NamespacedName) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        result = "success"
        try:
            if await self._reconcile(key):
                result = "requeue_after"
        except Stale:
            # The cache holds the newer view by now.
            result = "requeue"
            self._queue.failed(key)
        except (KubeError, ValueError) as error:
            result = "error"
            delay = self._queue.failed(key, error.after if isinstance(error, Retry) else None)
            level = logging.ERROR if isinstance(error, (Refused, ValueError)) else logging.WARNING
            logger.log(
                level, "pass failed", extra={"job": str(key), "error": str(error), "retry_seconds": round(delay, 2)}
            )
        except Exception:
            result = "error"
            self._queue.failed(key)
            logger.exception("pass failed unexpectedly", extra={"job": str(key)})
        else:
            self._queue.done(key)
        finally:
            self._metrics.reconciled(result, loop.time() - began)

    async def _reconcile(self, key: NamespacedName) -> bool:
        """One pass. Returns whether another look has been ordered."""
        cached = self._cache.job(key)
        if cached is None or cached.deleting:
            # Deletion is the garbage collector's business: every child names its owner.
            self._held_since.pop(key, None)
            self._ledger.forget(key)
            self._executor.settled(key)
            return False
        job = cached.parse()
        if not job.managed_by_external_controller and not job.status_readable:
            # As after a rollback. Left alone by the rules; but silence would look like a job that nobody has seen.
            msg = "another version of the operator wrote its status, which this one cannot read: go back to that one"
            raise ValueError(msg)
        plan, node_check = self._decide(key, job)
        if plan.status is None:
            return False
        # Ordered before anything can go wrong: a deadline does not wait for the end of a backoff.
        ordered = self._look_again(key, plan.requeue_at, node_check)
        wrote = False
        if plan.status is not job.status:
            if plan.write is StatusWrite.DELAYED and not plan.actions and not plan.events:
                remaining = self._hold(key)
                if remaining > 0:
                    self._queue.add_after(key, remaining)
                    return True
            wrote = await self._executor.write_status(key, cached, plan.status.wire())
        elif not plan.actions:
            self._executor.settled(key)
        self._held_since.pop(key, None)
        if plan.actions or plan.events:
            # The service and the pods are built from what has just been persisted.
            current = self._cache.job(key) if wrote else cached
            if current is None or current.uid != cached.uid:
                return False
            if await self._executor.act(key, current, current.parse() if wrote else job, plan):
                self._queue.add(key)
                ordered = True
        return ordered

    def _decide(self, key: NamespacedName, job: Job) -> tuple[Plan, datetime | None]:
        now = self._now()
        pods = tuple(self._cache.pods.values(key))
        names = frozenset(pod.node for pod in pods if pod.node)
        nodes, node_check = self._nodes(names, job.spec.failure_policy.node_loss_seconds)
        snapshot = Snapshot(
            job=job,
            pods=pods,
            service=self._cache.service(key),
            blocked_writes=self._ledger.of(key, job.uid),
            nodes=nodes,
            progress=self._progress(key, job.uid),
            created_attempts=self._executor.made(key, job.uid),
        )
        plan = decide(snapshot, now)
        if snapshot.blocked_writes:
            wanted = {_target(key, action) for action in plan.actions if isinstance(action, (CreatePod, CreateService))}
            if self._ledger.prune(key, job.uid, wanted, now):
                plan = decide(replace(snapshot, blocked_writes=self._ledger.of(key, job.uid)), now)
        return plan, node_check

    def _hold(self, key: NamespacedName) -> float:
        """Seconds that a status of counts alone still waits."""
        now = asyncio.get_running_loop().time()
        return HOLD_SECONDS - (now - self._held_since.setdefault(key, now))

    def _look_again(self, key: NamespacedName, *times: datetime | None) -> bool:
        """Order a look at the earliest of these times. Returns whether there is one."""
        earliest = min((at for at in times if at is not None), default=None)
        if earliest is None:
            return False
        self._queue.add_after(key, max(earliest - self._now(), SOONEST).total_seconds())
        return True


def _target(key: NamespacedName, action: CreatePod | CreateService) -> str:
    if isinstance(action, CreatePod):
        return f"{key.name}-{action.role}-{action.index}"
    return key.name
