"""How far the training is, asked of the pod whose success ends the job.

A courtesy: nothing depends on it, and an unreachable pod is asked ever less often. What a pod says is a fact for
`decide`, which takes it into the status at most once in half a minute.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp

from dtj_operator.api.trainer_contract import PORT
from dtj_operator.kube import serializer
from dtj_operator.reconcile.state.trainer_messages import read_progress

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from dtj_operator.api.status import Progress
    from dtj_operator.cache.job_cache import CachedJob, JobCache
    from dtj_operator.cache.namespaced_name import NamespacedName
    from dtj_operator.reconcile.state.snapshot import Pod

LOOK_SECONDS = 1.0
FIRST_SECONDS = 2.0
"""Between tries until a pod has answered for the first time."""
PERIOD_SECONDS = 30.0
JITTER = 0.2
"""Share of the period that is added at most, so that a thousand jobs do not write together."""
LONGEST_SECONDS = 600.0
ANSWER_SECONDS = 1.0
ANSWER_BYTES = 64 * 1024
AT_ONCE = 16
HTTP_OK = 200


def no_progress(_key: NamespacedName, _uid: str) -> Progress | None:
    """What an operator knows that does not ask."""
    return None


@dataclass(slots=True)
class _Turn:
    """When a pod is to be asked next."""

    job_uid: str
    pod_uid: str
    at: float
    """Loop time."""
    failures: int = 0
    latest: Progress | None = None


class ProgressPoller:
    """Asks the success pod of every running job, one after another in their own time."""

    def __init__(
        self,
        *,
        cache: JobCache,
        now: Callable[[], datetime],
        news: Callable[[NamespacedName], None],
    ) -> None:
        """`news` is called when a pod has said something."""
        self._cache = cache
        self._now = now
        self._news = news
        self._turns: dict[NamespacedName, _Turn] = {}

    def latest(self, key: NamespacedName, uid: str) -> Progress | None:
        """What the success pod of that incarnation of the job said last."""
        turn = self._turns.get(key)
        return turn.latest if turn is not None and turn.job_uid == uid else None

    async def run(self) -> None:
        """Poll until cancelled."""
        slots = asyncio.Semaphore(AT_ONCE)
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session, asyncio.TaskGroup() as group:
            while True:
                for key, cached, pod in self._due():
                    await slots.acquire()
                    task = group.create_task(self._poll(session, key, cached, pod))
                    task.add_done_callback(lambda _task: slots.release())
                await asyncio.sleep(LOOK_SECONDS)

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
            turn = self._turns.get(key)
            if turn is None or turn.pod_uid != pod.uid:
                # After a restart of the operator or of the pod; progress written lately keeps its distance.
                distance = PERIOD_SECONDS if cached.status.get("progress") else FIRST_SECONDS
                self._turns[key] = _Turn(cached.uid, pod.uid, now + distance * random.uniform(0.5, 1.0))
            elif now >= turn.at:
                due.append((key, cached, pod))
        for key in self._turns.keys() - seen:
            del self._turns[key]
        return due

    def _success_pod(self, key: NamespacedName, cached: CachedJob) -> Pod | None:
        """The chief, or worker 0 where there is none, if it can be asked."""
        for pod in self._cache.pods.values(key):
            if pod.role == cached.success_role and pod.index == 0 and pod.owner_uid == cached.uid:
                asked = pod.ip and not pod.host_network and pod.phase == "Running" and pod.deleted_at is None
                return pod if asked else None
        return None

    async def _poll(self, session: aiohttp.ClientSession, key: NamespacedName, cached: CachedJob, pod: Pod) -> None:
        loop = asyncio.get_running_loop()
        turn = self._turns.get(key)
        if turn is None:
            return
        turn.at = loop.time() + PERIOD_SECONDS * random.uniform(1.0, 1.0 + JITTER)
        said = await self._ask(session, cached, pod)
        progress = None if said is None or said.get("step") is None else read_progress(said, self._now())
        if progress is None:
            turn.failures += 1
            # A trainer answers from its first second, long before its first step.
            longest = LONGEST_SECONDS if said is None else PERIOD_SECONDS
            pause = FIRST_SECONDS * 2 ** min(turn.failures, 10)
            turn.at = loop.time() + min(longest, pause * random.uniform(0.8, 1.2))
            return
        turn.failures = 0
        turn.latest = progress
        self._news(key)

    async def _ask(self, session: aiohttp.ClientSession, cached: CachedJob, pod: Pod) -> dict[str, Any] | None:
        """What the trainer of this job says; None when nobody answers, or somebody else."""
        host = f"[{pod.ip}]" if ":" in pod.ip else pod.ip
        try:
            async with session.get(f"http://{host}:{PORT}/status", allow_redirects=False) as answer:
                if answer.status != HTTP_OK:
                    return None
                text = await answer.content.read(ANSWER_BYTES + 1)
                while len(text) <= ANSWER_BYTES and (more := await answer.content.read(ANSWER_BYTES + 1)):
                    text += more
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None
        if len(text) > ANSWER_BYTES:
            return None
        try:
            said = serializer.loads(text)
        except ValueError:
            return None
        return said if said.get("uid") == cached.uid else None
