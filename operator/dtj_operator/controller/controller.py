"""Controller: gives the keys of the work queue to the reconciler, and requeues after errors."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from dtj_operator.controller.plan_executor import StaleCache
from dtj_operator.kube.errors import KubeError, Refused, Retry

if TYPE_CHECKING:
    from dtj_operator.cache.namespaced_name import NamespacedName
    from dtj_operator.controller.metrics import Metrics
    from dtj_operator.controller.reconciler import Reconciler
    from dtj_operator.controller.workqueue import WorkQueue

logger = logging.getLogger(__name__)


class Controller:
    """The loop that reconciles the jobs whose keys are in the work queue."""

    def __init__(self, queue: WorkQueue, reconciler: Reconciler, metrics: Metrics) -> None:
        self._queue = queue
        self._reconciler = reconciler
        self._metrics = metrics

    async def run(self, max_concurrent_reconciles: int) -> None:
        """Reconcile each key that the queue hands out, that many jobs at a time, until cancelled."""
        workers = asyncio.Semaphore(max_concurrent_reconciles)
        running: set[asyncio.Task[None]] = set()
        try:
            while True:
                await workers.acquire()
                key = await self._queue.get()
                task = asyncio.create_task(self._process_next(key))
                running.add(task)
                task.add_done_callback(running.discard)
                task.add_done_callback(lambda _task: workers.release())
        finally:
            # When cancelled, what has begun is finished: a half-done reconciliation costs a later one.
            if running:
                await asyncio.wait(running)

    async def _process_next(self, key: NamespacedName) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        result = "success"
        try:
            if await self._reconciler.reconcile(key):
                result = "requeue_after"
        except StaleCache:
            # The cache holds the newer job by now.
            result = "requeue"
            self._queue.add_rate_limited(key)
        except KubeError as error:
            result = "error"
            delay = self._queue.add_rate_limited(key, error.after if isinstance(error, Retry) else None)
            level = logging.ERROR if isinstance(error, Refused) else logging.WARNING
            logger.log(
                level,
                "reconcile failed",
                extra={"job": str(key), "error": str(error), "retry_seconds": round(delay, 2)},
            )
        except Exception:
            result = "error"
            self._queue.add_rate_limited(key)
            logger.exception("reconcile failed unexpectedly", extra={"job": str(key)})
        else:
            self._queue.done(key)
        finally:
            self._metrics.record_reconcile(result, loop.time() - began)
