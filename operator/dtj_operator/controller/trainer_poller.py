"""TrainerPoller: asks the success pod of each job for /status, which tells how far the training is.

Nothing depends on it, and an unreachable pod is asked less and less often. `decide` takes the answer into the job's
status at most once in half a minute.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp

from dtj_operator.api.trainer_contract import PORT, job_hash
from dtj_operator.kube import serializer
from dtj_operator.reconcile.state.trainer_messages import read_progress, read_recoveries

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from dtj_operator.api.status import Progress
    from dtj_operator.cache.job_cache import CachedJob, JobCache
    from dtj_operator.cache.namespaced_name import NamespacedName
    from dtj_operator.reconcile.state.snapshot import Pod, ReportedRecoveries

CHECK_SECONDS = 1.0
FIRST_SECONDS = 2.0
"""Between tries until a pod has answered for the first time."""
PERIOD_SECONDS = 30.0
JITTER = 0.2
"""Share of the period that is added at most, so that a thousand jobs do not write at the same time."""
MAX_PERIOD_SECONDS = 600.0
TIMEOUT_SECONDS = 1.0
MAX_RESPONSE_BYTES = 64 * 1024
MAX_CONCURRENT_POLLS = 16
HTTP_OK = 200


class TrainerReport(NamedTuple):
    """What the success pod of a job has answered."""

    progress: Progress | None = None
    recoveries: ReportedRecoveries | None = None


NO_REPORT = TrainerReport()


def no_report(_key: NamespacedName, _uid: str) -> TrainerReport:
    """Return no report; for an operator that does not poll."""
    return NO_REPORT


@dataclass(slots=True)
class _PollState:
    """The time at which a pod is asked next."""

    job_uid: str
    pod_uid: str
    at: float
    """Loop time."""
    failures: int = 0
    latest: TrainerReport = NO_REPORT


class TrainerPoller:
    """A poller of the success pod of every running job, each at its own intervals."""

    def __init__(
        self,
        *,
        cache: JobCache,
        now: Callable[[], datetime],
        on_progress: Callable[[NamespacedName], None],
    ) -> None:
        """`on_progress(key)` is called when a pod has reported progress."""
        self._cache = cache
        self._now = now
        self._on_progress = on_progress
        self._states: dict[NamespacedName, _PollState] = {}

    def latest(self, key: NamespacedName, uid: str) -> TrainerReport:
        """Return the last report of the job with this UID."""
        state = self._states.get(key)
        return state.latest if state is not None and state.job_uid == uid else NO_REPORT

    async def run(self) -> None:
        """Poll until cancelled."""
        polls = asyncio.Semaphore(MAX_CONCURRENT_POLLS)
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session, asyncio.TaskGroup() as group:
            while True:
                for key, cached, pod in self._due():
                    await polls.acquire()
                    task = group.create_task(self._poll(session, key, cached, pod))
                    task.add_done_callback(lambda _task: polls.release())
                await asyncio.sleep(CHECK_SECONDS)

    def _due(self) -> list[tuple[NamespacedName, CachedJob, Pod]]:
        now = asyncio.get_running_loop().time()
        due = []
        seen = set()
        for key in self._cache.pods.list_keys():
            cached = self._cache.job(key)
            if cached is None or cached.deleting or cached.completed:
                continue
            pod = self._success_pod(key, cached)
            if pod is None:
                continue
            seen.add(key)
            state = self._states.get(key)
            if state is None or state.pod_uid != pod.uid:
                # After a restart of the operator or the pod: progress written recently is not replaced at once.
                distance = PERIOD_SECONDS if cached.status.get("progress") else FIRST_SECONDS
                self._states[key] = _PollState(cached.uid, pod.uid, now + distance * random.uniform(0.5, 1.0))
            elif now >= state.at:
                due.append((key, cached, pod))
        for key in self._states.keys() - seen:
            del self._states[key]
        return due

    def _success_pod(self, key: NamespacedName, cached: CachedJob) -> Pod | None:
        """Return the chief, or worker 0 where there is none, if it can be asked."""
        for pod in self._cache.pods.values(key):
            if pod.role == cached.success_role and pod.index == 0 and pod.owner_uid == cached.uid:
                asked = pod.ip and not pod.host_network and pod.phase == "Running" and pod.deleted_at is None
                return pod if asked else None
        return None

    async def _poll(self, session: aiohttp.ClientSession, key: NamespacedName, cached: CachedJob, pod: Pod) -> None:
        loop = asyncio.get_running_loop()
        state = self._states.get(key)
        if state is None:
            return
        state.at = loop.time() + PERIOD_SECONDS * random.uniform(1.0, 1.0 + JITTER)
        status = await self._ask(session, cached, pod)
        progress = None if status is None or status.get("step") is None else read_progress(status, self._now())
        if status is None or progress is None:
            state.failures += 1
            # A trainer answers from its first second, long before its first step.
            longest = MAX_PERIOD_SECONDS if status is None else PERIOD_SECONDS
            pause = FIRST_SECONDS * 2 ** min(state.failures, 10)
            state.at = loop.time() + min(longest, pause * random.uniform(0.8, 1.2))
            return
        state.failures = 0
        state.latest = TrainerReport(progress, read_recoveries(status, pod.uid, self._now()))
        self._on_progress(key)

    async def _ask(self, session: aiohttp.ClientSession, cached: CachedJob, pod: Pod) -> dict[str, Any] | None:
        """Return the response of this job's trainer; None when there is none, or it is of another job."""
        host = f"[{pod.ip}]" if ":" in pod.ip else pod.ip
        try:
            async with session.get(f"http://{host}:{PORT}/status", allow_redirects=False) as answer:
                if answer.status != HTTP_OK:
                    return None
                text = await answer.content.read(MAX_RESPONSE_BYTES + 1)
                while len(text) <= MAX_RESPONSE_BYTES and (more := await answer.content.read(MAX_RESPONSE_BYTES + 1)):
                    text += more
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None
        if len(text) > MAX_RESPONSE_BYTES:
            return None
        try:
            status = serializer.loads(text)
        except ValueError:
            return None
        return status if _is_of(status, cached.uid) else None


def _is_of(status: Mapping[str, Any], uid: str) -> bool:
    """Return whether a trainer of this job gave the status; trainers of an earlier version show the UID itself."""
    return status.get("job") == job_hash(uid) or status.get("uid") == uid
