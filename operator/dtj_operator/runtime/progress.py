"""How far the training is, asked of the pod whose success ends the job.

A courtesy: nothing depends on it, an unreachable pod is asked ever less often, and a job's status is written
for it at most once in half a minute.
"""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp
from pydantic import ValidationError

from dtj_operator.api.contract import PORT
from dtj_operator.api.names import Role
from dtj_operator.api.status import Progress
from dtj_operator.kube import wire
from dtj_operator.kube.errors import KubeError
from dtj_operator.kube.resources import JOBS
from dtj_operator.runtime.mergepatch import difference

if TYPE_CHECKING:
    from collections.abc import Callable

    from dtj_operator.domain.snapshot import Pod
    from dtj_operator.kube.client import ApiClient
    from dtj_operator.runtime.clock import Clock
    from dtj_operator.runtime.source import Key
    from dtj_operator.runtime.store import KnownJob, Store

logger = logging.getLogger(__name__)

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


@dataclass(slots=True)
class _Turn:
    """When a pod is to be asked next."""

    pod_uid: str
    at: float
    """Loop time."""
    failures: int = 0


class ProgressPoller:
    """Asks the success pod of every running job, one after another in their own time."""

    def __init__(
        self,
        *,
        client: ApiClient,
        store: Store,
        clock: Clock,
        may_write: Callable[[], bool],
        port: int = PORT,
    ) -> None:
        self._client = client
        self._store = store
        self._clock = clock
        self._may_write = may_write
        self._port = port
        self._turns: dict[Key, _Turn] = {}

    async def run(self) -> None:
        """Poll until cancelled."""
        slots = asyncio.Semaphore(AT_ONCE)
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session, asyncio.TaskGroup() as group:
            while True:
                for key, known, pod in self._due():
                    await slots.acquire()
                    task = group.create_task(self._poll(session, key, known, pod))
                    task.add_done_callback(lambda _task: slots.release())
                await asyncio.sleep(LOOK_SECONDS)

    def _due(self) -> list[tuple[Key, KnownJob, Pod]]:
        now = asyncio.get_running_loop().time()
        due = []
        seen = set()
        for key in self._store.pods.jobs():
            known = self._store.job(key)
            if known is None or known.deleting or known.status.get("completionTime"):
                continue
            pod = self._success_pod(key, known)
            if pod is None:
                continue
            seen.add(key)
            turn = self._turns.get(key)
            if turn is None or turn.pod_uid != pod.uid:
                # After a restart of the operator or of the pod; progress written lately keeps its distance.
                distance = PERIOD_SECONDS if known.status.get("progress") else FIRST_SECONDS
                self._turns[key] = _Turn(pod.uid, now + distance * random.uniform(0.5, 1.0))
            elif now >= turn.at:
                due.append((key, known, pod))
        for key in self._turns.keys() - seen:
            del self._turns[key]
        return due

    def _success_pod(self, key: Key, known: KnownJob) -> Pod | None:
        """The chief, or worker 0 where there is none, if it can be asked."""
        role = Role.CHIEF if known.job.spec.replicas(Role.CHIEF) else Role.WORKER
        for pod in self._store.pods.values(key):
            if pod.role == role and pod.index == 0 and pod.owner_uid == known.uid:
                asked = pod.ip and not pod.host_network and pod.phase == "Running" and pod.deleted_at is None
                return pod if asked else None
        return None

    async def _poll(self, session: aiohttp.ClientSession, key: Key, known: KnownJob, pod: Pod) -> None:
        loop = asyncio.get_running_loop()
        turn = self._turns.get(key)
        if turn is None:
            return
        turn.at = loop.time() + PERIOD_SECONDS * random.uniform(1.0, 1.0 + JITTER)
        progress = await self._ask(session, known, pod)
        if progress is None:
            turn.failures += 1
            pause = min(LONGEST_SECONDS, FIRST_SECONDS * 2 ** min(turn.failures, 10))
            turn.at = loop.time() + pause * random.uniform(0.8, 1.2)
            return
        turn.failures = 0
        await self._write(key, known, progress)

    async def _ask(self, session: aiohttp.ClientSession, known: KnownJob, pod: Pod) -> dict[str, Any] | None:
        """What the pod says, as it goes into the status; None when it says nothing useful."""
        host = f"[{pod.ip}]" if ":" in pod.ip else pod.ip
        try:
            async with session.get(f"http://{host}:{self._port}/status", allow_redirects=False) as answer:
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
            said = wire.loads(text)
            if said.get("uid") != known.uid or said.get("step") is None:
                return None
            progress = Progress.model_validate({**said, "updatedAt": self._clock.now()})
        except (ValueError, ValidationError):
            return None
        return progress.model_dump(mode="json", by_alias=True, exclude_none=True)

    async def _write(self, key: Key, asked: KnownJob, progress: dict[str, Any]) -> None:
        known = self._store.job(key)
        if known is None or known.uid != asked.uid or known.status.get("completionTime") or not self._may_write():
            return
        old = known.status.get("progress") or {}
        patch = difference(old, progress)
        if not patch.keys() - {"updatedAt"}:
            return
        body = {"metadata": {"resourceVersion": known.resource_version}, "status": {"progress": patch}}
        try:
            self._store.jobs.upsert(await self._client.patch_status(JOBS, key.namespace, key.name, body))
        except KubeError as error:
            logger.info("progress not written", extra={"job": str(key), "error": error.message})
