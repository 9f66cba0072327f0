"""Manager: builds all parts of the operator, starts them in order, and stops them in order."""

from __future__ import annotations

import asyncio
import logging
import socket
import uuid
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dtj_operator import operator_version, user_agent
from dtj_operator.api.constants import LABEL_JOB_NAME
from dtj_operator.app.http_server import health, metrics, serving
from dtj_operator.app.preflight import (
    NEEDED,
    POLICY_RIGHTS,
    may_hold_lease,
    may_watch_nodes,
    open_namespaces,
    wait_for_rights,
)
from dtj_operator.app.runnables import LeadershipLost, RestartNeeded, Runnables
from dtj_operator.builders.network_policy import build_network_policy
from dtj_operator.cache.job_cache import JobCache
from dtj_operator.cache.namespaced_name import NamespacedName
from dtj_operator.cache.node_monitor import NodeMonitor, NoNodes
from dtj_operator.cache.profiles import Profiles
from dtj_operator.cache.reflector import Reflector
from dtj_operator.cache.relist import Relister
from dtj_operator.cache.unwatched_objects import read_unwatched
from dtj_operator.controller.blocked_write_tracker import BlockedWriteTracker
from dtj_operator.controller.controller import Controller
from dtj_operator.controller.event_recorder import EventRecorder
from dtj_operator.controller.leader_election import LeaderElector
from dtj_operator.controller.metrics import Metrics
from dtj_operator.controller.object_control import ObjectControl
from dtj_operator.controller.plan_executor import PlanExecutor
from dtj_operator.controller.reconciler import Reconciler
from dtj_operator.controller.trainer_poller import TrainerPoller, no_report
from dtj_operator.controller.vanished_pods import VanishedPods
from dtj_operator.controller.workqueue import WorkQueue
from dtj_operator.kube.client import ApiClient
from dtj_operator.kube.errors import KubeError
from dtj_operator.kube.resources import JOBS, NETWORK_POLICIES, PODS, SERVICES

if TYPE_CHECKING:
    from collections.abc import Callable

    from dtj_operator.app.preflight import Rights
    from dtj_operator.app.settings import Settings
    from dtj_operator.kube.rest_config import RestConfig

logger = logging.getLogger(__name__)

EVENT_SECONDS = 1.0
"""How long events may take to be posted at the end."""
FINISH_SECONDS = 8.0
"""How long reconciliations in progress may take to finish at the end."""


def utc_now() -> datetime:
    """Return the current time, in UTC."""
    return datetime.now(UTC)


class Manager:
    """The parts of one operator process."""

    def __init__(
        self,
        settings: Settings,
        rest_config: RestConfig,
        *,
        lost: Callable[[], None],
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """`lost` is called the moment that leadership is lost; `now` tells the time of day, aware and in UTC."""
        self._lost = lost
        self.settings = settings
        self.rest_config = rest_config
        self._now = now
        self.namespaces: tuple[str | None, ...] = settings.namespaces or (None,)
        """Those that are watched, None for the whole cluster; after `start` only those that there are rights in."""
        self._own_namespace = settings.own_namespace or rest_config.namespace
        self.identity = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
        self.metrics = Metrics()
        self.queue = WorkQueue(self.metrics)
        self.cache = JobCache(self._changed)
        self.ready = asyncio.Event()
        """Set when everything that exists is known."""
        self.ending = asyncio.Event()
        """Set when the process has to end: a part has failed, or the manager has been stopped."""
        self.failure: Exception | None = None
        """The error that ends the process, if it does not end because of a signal."""
        self._runnables = Runnables(self._fail)
        self._open = AsyncExitStack()
        """HTTP servers, and connections to the API server."""
        self._working = False
        self._relisters: tuple[Relister, ...] = ()
        self._elector: LeaderElector | None = None
        self._recorder: EventRecorder | None = None
        self._poller: TrainerPoller | None = None

    async def start(self) -> None:
        """Start everything; returns when the caches are filled. A standby goes on waiting for the lease.

        Raises PreflightError, SettingsError, KubeError; nothing runs then.
        """
        try:
            await self._start()
        except BaseException as error:
            if isinstance(error, Exception):
                self._fail(error)
            await self.stop()
            raise

    async def stop(self) -> None:
        """Finish what has begun, post its events, release the lease, stop watching. May be called again."""
        self.ending.set()
        self.queue.shut_down()
        await self._runnables.stop("controller", FINISH_SECONDS)
        if self._working and self._recorder is not None:
            await self._recorder.flush(EVENT_SECONDS)
        self._working = False
        await self._runnables.stop("elector", FINISH_SECONDS)
        if self._elector is not None:
            await self._elector.release()
        await self._runnables.stop_all()
        await self._open.aclose()

    def job_changed(self, kind: str | None, job: dict[str, Any]) -> None:
        """Take a job from the watch. `kind` is that of the watch event; None when jobs are listed instead."""
        if kind == "DELETED":
            self.cache.jobs.delete(job)
        else:
            self.cache.jobs.upsert(job)
        if kind is None:
            # Deletions may have been missed while the watch was down.
            self._relisters[0].relist_soon()

    async def _start(self) -> None:
        settings = self.settings
        client = await self._open_client()
        # Renewals of the lease never wait for a connection, or for their turn, behind a thousand pods.
        renewals = await self._open_client()
        # A standby tells of none, because its leader does.
        self.metrics.register_jobs(lambda: self.cache.handled_jobs() if self._working else ())
        if settings.health is not None:
            await self._open.enter_async_context(serving(health(self._live, self._ready), settings.health))
        if settings.metrics is not None:
            await self._open.enter_async_context(serving(metrics(self.metrics.text), settings.metrics))
        needed = (*NEEDED, *POLICY_RIGHTS) if settings.network_policy else NEEDED
        wanted = self.namespaces
        self.namespaces = await open_namespaces(client, self.rest_config, wanted, needed)
        for namespace in set(wanted) - set(self.namespaces):
            self._runnables.start(self._restart_with(client, namespace, needed), "left out")
        await self._elect(renewals)
        watch_nodes = not settings.namespaces and await may_watch_nodes(client, self.rest_config)
        nodes = NodeMonitor(client, self._now, self._node_changed) if watch_nodes else None
        controller = self._build_controller(client, nodes)
        await self._fill_caches(client, nodes)
        self.ready.set()
        self._runnables.start(self._control(controller), "controller")

    async def _open_client(self) -> ApiClient:
        return await self._open.enter_async_context(
            ApiClient(
                self.rest_config,
                user_agent=user_agent(),
                qps=self.settings.kube_api_qps,
                burst=self.settings.kube_api_burst,
                record_request=self.metrics.record_request,
            )
        )

    def _build_controller(self, client: ApiClient, nodes: NodeMonitor | None) -> Controller:
        blocked_writes = BlockedWriteTracker()
        writer = client.fenced(self._elector.may_write) if self._elector else client
        self._recorder = EventRecorder(writer, self._now, self.identity, busy=lambda: self.queue.busy)
        executor = PlanExecutor(
            client=writer,
            cache=self.cache,
            objects=ObjectControl(writer, self.cache, self.metrics),
            blocked_writes=blocked_writes,
            events=self._recorder,
            now=self._now,
            metrics=self.metrics,
            prerequisites=((NETWORK_POLICIES, build_network_policy),) if self.settings.network_policy else (),
        )
        if self.settings.progress:
            self._poller = TrainerPoller(cache=self.cache, now=self._now, on_progress=self._changed)
        reconciler = Reconciler(
            cache=self.cache,
            blocked_writes=blocked_writes,
            executor=executor,
            vanished=VanishedPods(client, self.cache),
            queue=self.queue,
            now=self._now,
            nodes=nodes or NoNodes(),
            profiles=Profiles(client, self._own_namespace, self.settings.profiles),
            report=self._poller.latest if self._poller else no_report,
        )
        return Controller(self.queue, reconciler, self.metrics)

    async def _fill_caches(self, client: ApiClient, nodes: NodeMonitor | None) -> None:
        """Start all watches but that of jobs, which is kopf's, and wait until everything that exists is known."""
        reflectors: list[Reflector] = []
        for namespace in self.namespaces:
            reflectors.append(Reflector(client, PODS, namespace, self.cache.pods, labels=LABEL_JOB_NAME))
            reflectors.append(Reflector(client, SERVICES, namespace, self.cache.services, labels=LABEL_JOB_NAME))
        if nodes is not None:
            reflectors += nodes.reflectors
            self._runnables.start(nodes.run(), "nodes")
        for reflector in reflectors:
            self._runnables.start(reflector.run(), "reflector")
        jobs = Relister(client, JOBS, self.namespaces, self.cache.jobs)
        pods = Relister(client, PODS, self.namespaces, self.cache.pods, labels=LABEL_JOB_NAME)
        self._relisters = (jobs, pods)
        # kopf does not tell when its first list is complete, so the jobs that exist are listed here.
        while True:
            try:
                await jobs.relist()
                break
            except KubeError as error:
                logger.warning("first list failed", extra={"error": error.message})
                await asyncio.sleep(1.0)
        self._runnables.start(read_unwatched(client, self.cache), "unwatched")
        for relister in self._relisters:
            self._runnables.start(relister.run(), "relister")
        await asyncio.gather(*(reflector.synced.wait() for reflector in reflectors))

    async def _control(self, controller: Controller) -> None:
        """Reconcile from the moment that this process leads, until cancelled."""
        if self._elector is not None:
            await self._elector.leading.wait()
        self._working = True
        # Jobs that nobody has looked at yet come first: those that run can wait a second.
        for cached in sorted((cached for _, cached in self.cache.jobs.items()), key=lambda cached: bool(cached.phase)):
            self.queue.add(NamespacedName(cached.namespace, cached.name))
        for part, name in ((self._recorder, "recorder"), (self._poller, "progress")):
            if part is not None:
                self._runnables.start(part.run(), name)
        logger.info(
            "working", extra={"version": operator_version(), "jobs": len(self.cache.jobs), "pods": len(self.cache.pods)}
        )
        await controller.run(self.settings.workers)

    async def _restart_with(self, client: ApiClient, namespace: str | None, needed: Rights) -> None:
        """Raise RestartNeeded when a namespace that was left out can be worked in: watches are begun at the start."""
        await wait_for_rights(client, self.rest_config, namespace, needed)
        msg = f"namespace {namespace} can be worked in by now: starting again with it"
        raise RestartNeeded(msg)

    async def _elect(self, client: ApiClient) -> None:
        if not self.settings.leader_elect:
            self.metrics.set_leader(True)
            return
        await may_hold_lease(client, self._own_namespace, self.settings.lease_name)
        self._elector = LeaderElector(
            client,
            namespace=self._own_namespace,
            name=self.settings.lease_name,
            identity=self.identity,
            on_change=self.metrics.set_leader,
        )
        self._runnables.start(self._lead(self._elector), "elector")

    async def _lead(self, elector: LeaderElector) -> None:
        await elector.run()
        self._lost()
        raise LeadershipLost(self.identity)

    def _fail(self, error: Exception) -> None:
        if not self.ending.is_set():
            self.failure = error
            self.ending.set()

    def _changed(self, key: NamespacedName) -> None:
        # Whatever changes earlier is reconciled when the work begins.
        if self._working:
            self.queue.add(key)

    def _node_changed(self, node: str) -> None:
        for key in self.cache.jobs_on_node(node):
            self._changed(key)

    def _live(self) -> str:
        """Return what is wrong with this process; empty if nothing is."""
        healthy = all(relister.healthy for relister in self._relisters)
        return "" if healthy else "no list of jobs and pods has succeeded for a quarter of an hour"

    def _ready(self) -> str:
        return "" if self.ready.is_set() else "not everything that exists is known yet"
