"""All parts put together, and their order of starting and stopping."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import uuid
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING

from dtj_operator import operator_version, user_agent
from dtj_operator.api.constants import LABEL_JOB_NAME
from dtj_operator.app.http_server import health, metrics, serving
from dtj_operator.app.preflight import (
    NEEDED,
    POLICY_RIGHTS,
    RestartNeeded,
    Unprepared,
    check_cluster,
    may_hold_lease,
    may_watch_nodes,
    open_namespaces,
)
from dtj_operator.builders.network_policy import build_network_policy
from dtj_operator.cache.job_cache import JobCache
from dtj_operator.cache.namespaced_name import NamespacedName
from dtj_operator.cache.node_monitor import NodeMonitor, no_node_health
from dtj_operator.cache.reflector import Reflector
from dtj_operator.cache.relist import Relister
from dtj_operator.controller.blocked_write_tracker import BlockedWriteTracker
from dtj_operator.controller.controller import Controller
from dtj_operator.controller.event_recorder import EventRecorder
from dtj_operator.controller.leader_election import LeaderElector
from dtj_operator.controller.metrics import Metrics
from dtj_operator.controller.object_control import ObjectControl
from dtj_operator.controller.plan_executor import PlanExecutor
from dtj_operator.controller.reconciler import Reconciler
from dtj_operator.controller.trainer_poller import TrainerPoller, no_progress
from dtj_operator.controller.workqueue import WorkQueue
from dtj_operator.kube.client import ApiClient
from dtj_operator.kube.errors import KubeError
from dtj_operator.kube.resources import JOBS, NETWORK_POLICIES, PODS, SERVICES

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from dtj_operator.app.preflight import Rights
    from dtj_operator.app.settings import Settings
    from dtj_operator.cache.job_cache import CachedJob
    from dtj_operator.kube.rest_config import RestConfig

logger = logging.getLogger(__name__)

EVENT_SECONDS = 1.0
"""How long events may take to be posted at the end."""
FINISH_SECONDS = 8.0
"""How long passes under way may take to finish at the end."""
LEFT_OUT_SECONDS = 60.0
"""Between looks at a namespace in which there are no rights."""


class LeadershipLost(Exception):
    """Somebody else may lead now: the process has to end at once."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Operator:
    """One operator process."""

    def __init__(
        self,
        settings: Settings,
        rest_config: RestConfig,
        *,
        lost: Callable[[], None],
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        """`lost` is called the moment that leadership is lost; `now` tells the time of day, aware and in UTC."""
        self._lost = lost
        self._settings = settings
        self._rest_config = rest_config
        self._now = now
        self._namespaces: tuple[str | None, ...] = settings.namespaces or (None,)
        self.identity = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
        self.metrics = Metrics()
        self.queue = WorkQueue(self.metrics)
        self.cache = JobCache(self._changed)
        self._working = False
        self.ready = asyncio.Event()
        """Set when everything that exists is known."""
        self._relisters: tuple[Relister, ...] = ()
        self._elector: LeaderElector | None = None
        self._recorder: EventRecorder | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self, stop: asyncio.Event) -> None:
        """Operate until `stop` is set.

        Raises Unprepared, SettingsProblem, LeaderElectionError, LeadershipLost, RestartNeeded, KubeError.
        """
        async with AsyncExitStack() as stack:
            client = await self._open_client(stack)
            # Renewals of the lease never wait for a connection, or for a turn, behind a thousand pods.
            renewals = await self._open_client(stack)
            self.metrics.register_jobs(self._phases)
            if self._settings.health is not None:
                await stack.enter_async_context(serving(health(self._live, self._ready), self._settings.health))
            if self._settings.metrics is not None:
                await stack.enter_async_context(serving(metrics(self.metrics.text), self._settings.metrics))
            try:
                await self._until(stop, self._operate(client, renewals))
            finally:
                await self._end()

    async def _operate(self, client: ApiClient, renewals: ApiClient) -> None:
        """Start everything, in order; returns only by an exception."""
        settings = self._settings
        needed = (*NEEDED, *POLICY_RIGHTS) if settings.network_policy else NEEDED
        wanted = self._namespaces
        self._namespaces = await open_namespaces(client, self._rest_config, wanted, needed)
        for namespace in set(wanted) - set(self._namespaces):
            self._start(self._until_open(client, namespace, needed), "left out")
        elector = await self._elect(renewals)
        cluster_wide = not settings.namespaces
        nodes = None
        if cluster_wide and await may_watch_nodes(client, self._rest_config):
            nodes = NodeMonitor(client, self._now, self._node_changed)
        elif cluster_wide:
            logger.warning(
                "no right to get, list and watch nodes and their leases: lost nodes are told by their pods, later"
            )
        blocked_writes = BlockedWriteTracker()
        writer = client.fenced(elector.may_write) if elector else client
        recorder = EventRecorder(writer, self._now, self.identity, busy=lambda: self.queue.busy)
        self._recorder = recorder
        executor = PlanExecutor(
            client=writer,
            cache=self.cache,
            objects=ObjectControl(writer, self.cache, self.metrics),
            blocked_writes=blocked_writes,
            events=recorder,
            now=self._now,
            metrics=self.metrics,
            prerequisites=((NETWORK_POLICIES, build_network_policy),) if settings.network_policy else (),
        )
        poller = (
            TrainerPoller(cache=self.cache, now=self._now, on_progress=self._changed) if settings.progress else None
        )
        reconciler = Reconciler(
            cache=self.cache,
            blocked_writes=blocked_writes,
            executor=executor,
            queue=self.queue,
            now=self._now,
            nodes=nodes.health if nodes else no_node_health,
            progress=poller.latest if poller else no_progress,
        )
        await self._watch(client, nodes)
        if elector is not None:
            # Everything is warm by now; what is in line waits for the lease.
            await elector.leading.wait()
        # Jobs that nobody has looked at yet come first: those that run can wait a second.
        self._working = True
        for cached in sorted((cached for _, cached in self.cache.jobs.items()), key=_taken_up):
            self.queue.add(NamespacedName(cached.namespace, cached.name))
        self._start(recorder.run(), "recorder")
        self._start(Controller(self.queue, reconciler, self.metrics).run(settings.workers), "controller")
        if poller is not None:
            self._start(poller.run(), "progress")
        logger.info(
            "working", extra={"version": operator_version(), "jobs": len(self.cache.jobs), "pods": len(self.cache.pods)}
        )
        await asyncio.Event().wait()

    async def _open_client(self, stack: AsyncExitStack) -> ApiClient:
        return await stack.enter_async_context(
            ApiClient(
                self._rest_config,
                user_agent=user_agent(),
                qps=self._settings.kube_api_qps,
                burst=self._settings.kube_api_burst,
                record_request=self.metrics.record_request,
            )
        )

    async def _watch(self, client: ApiClient, nodes: NodeMonitor | None) -> None:
        """Start all sources and wait until everything that exists is known."""
        sources: list[Reflector] = []
        for namespace in self._namespaces:
            sources.append(Reflector(client, PODS, namespace, self.cache.pods, labels=LABEL_JOB_NAME))
            sources.append(Reflector(client, SERVICES, namespace, self.cache.services, labels=LABEL_JOB_NAME))
        if nodes is not None:
            sources += nodes.reflectors
            self._start(nodes.run(), "nodes")
        for source in sources:
            self._start(source.run(), "reflector")
        jobs = Relister(client, JOBS, self._namespaces, self.cache.jobs)
        pods = Relister(client, PODS, self._namespaces, self.cache.pods, labels=LABEL_JOB_NAME)
        self._relisters = (jobs, pods)
        # kopf does not tell when its first list is complete, so the jobs that exist are listed here. It is loaded while
        # the server answers, and lists them once more when everybody else has what they need.
        loading = asyncio.create_task(asyncio.to_thread(import_module, "dtj_operator.app.kopf_app"))
        while True:
            try:
                await jobs.relist()
                break
            except KubeError as error:
                logger.warning("first list failed", extra={"error": error.message})
                await asyncio.sleep(1.0)
        for relister in self._relisters:
            self._start(relister.run(), "relister")
        for source in sources:
            await source.synced.wait()
        stream = (await loading).KopfSource(
            self._rest_config,
            user_agent=user_agent(),
            namespaces=[namespace for namespace in self._namespaces if namespace],
            indexer=self.cache.jobs,
            relisted=jobs.relist_soon,
        )
        self._start(stream.run(), "jobs")
        self.ready.set()

    async def _until_open(self, client: ApiClient, namespace: str | None, needed: Rights) -> None:
        """Raise RestartNeeded when a namespace that was left out can be worked in: watches are begun at the start."""
        while True:
            await asyncio.sleep(LEFT_OUT_SECONDS)
            with suppress(Unprepared, KubeError):
                await check_cluster(client, self._rest_config, namespace, needed)
                msg = f"namespace {namespace} can be worked in by now: starting anew with it"
                raise RestartNeeded(msg)

    async def _elect(self, client: ApiClient) -> LeaderElector | None:
        if not self._settings.leader_elect:
            self.metrics.set_leader(True)
            return None
        namespace = os.environ.get("POD_NAMESPACE") or self._rest_config.namespace
        await may_hold_lease(client, namespace)
        self._elector = LeaderElector(
            client,
            namespace=namespace,
            name=self._settings.lease_name,
            identity=self.identity,
            on_change=self.metrics.set_leader,
        )
        self._start(self._lead(self._elector), "elector")
        return self._elector

    async def _lead(self, elector: LeaderElector) -> None:
        await elector.run()
        self._lost()
        raise LeadershipLost(self.identity)

    async def _until(self, stop: asyncio.Event, work: Coroutine[None, None, None]) -> None:
        """Run until `stop` is set or any part fails."""
        stopped = asyncio.create_task(stop.wait(), name="stop")
        main = asyncio.create_task(work, name="operate")
        self._tasks.append(main)
        try:
            while not stopped.done():
                # Parts start other parts, so the set is taken anew every second.
                await asyncio.wait([stopped, *self._tasks], timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
                for task in self._tasks:
                    if task.done():
                        task.result()
                        msg = f"{task.get_name()} has ended by itself"
                        raise RuntimeError(msg)
        finally:
            stopped.cancel()

    async def _end(self) -> None:
        """Finish what has begun, give the lease back, stop watching."""
        self.queue.shut_down()
        workers = [task for task in self._tasks if task.get_name() == "controller"]
        for task in workers:
            task.cancel()
        if workers:
            await asyncio.wait(workers, timeout=FINISH_SECONDS)
        if workers and self._recorder is not None:
            await self._recorder.flush(EVENT_SECONDS)
        elector = [task for task in self._tasks if task.get_name() == "elector"]
        for task in elector:
            task.cancel()
        await asyncio.gather(*elector, return_exceptions=True)
        if self._elector is not None:
            await self._elector.release()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[None, None, None], name: str) -> None:
        self._tasks.append(asyncio.create_task(work, name=name))

    def _changed(self, key: NamespacedName) -> None:
        # What happens before the work begins is looked at when it does.
        if self._working:
            self.queue.add(key)

    def _phases(self) -> list[str]:
        """Of all jobs that are this operator's. A standby knows them too, but its leader counts them."""
        if not self._working:
            return []
        return [cached.phase for _, cached in self.cache.jobs.items() if not cached.managed_by_external_controller]

    def _node_changed(self, node: str) -> None:
        for key in self.cache.jobs_on_node(node):
            self._changed(key)

    def _live(self) -> str:
        """What is wrong with this process; empty when nothing is."""
        if not all(relister.healthy for relister in self._relisters):
            return "no list of jobs and pods has succeeded for a quarter of an hour"
        return ""

    def _ready(self) -> str:
        return "" if self.ready.is_set() else "not everything that exists is known yet"


def _taken_up(cached: CachedJob) -> bool:
    return bool(cached.phase)
