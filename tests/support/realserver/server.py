"""A namespace of a real API server, with the methods of the server in this process.

Writes of tests and the kubelet are done in order in the background; `settled` waits for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self

import aiohttp
from aiohttp import web

from tests.support.apiserver import EventType
from tests.support.apiserver.kinds import JOBS, NAMESPACES, NODES, PODS, SERVICES, Kind, Object, find
from tests.support.realserver.mirror import Mirror
from tests.support.realserver.proxy import WITHOUT_LIMIT, Proxy, lines

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from tests.support.apiserver import Commit
    from tests.support.apiserver.faults import Faults
    from tests.support.apiserver.log import Log
    from tests.support.realserver.real_cluster import RealCluster

QUOTAS: Final = Kind("", "v1", "resourcequotas", "ResourceQuota", subresources=("status",))
QUOTA: Final = "pods"
MIRRORED: Final = (JOBS, PODS, SERVICES)
MERGE_PATCH: Final = "application/merge-patch+json"
OUT_OF_DATE: Final = frozenset({404, 409})
"""Answers to a change of an object that was deleted or replaced meanwhile: it is not changed then."""
ANOTHER_INCARNATION: Final = "metadata.uid: Invalid value"
"""How a patch of a custom resource is refused that was meant for an earlier one of the same name."""
ERRORS_FROM: Final = 400
RETRY_SECONDS: Final = 0.1
REQUEST_LIMIT: Final = aiohttp.ClientTimeout(total=120)


@dataclass(frozen=True, slots=True)
class _Act:
    """One request of an administrator, scheduler or kubelet."""

    method: str
    kind: Kind
    path: str
    body: Object
    content_type: str = "application/json"
    late: frozenset[int] = OUT_OF_DATE
    """Answers that are no error."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


class RealServer:
    """One namespace of a real API server."""

    def __init__(self, cluster: RealCluster, *, now: Callable[[], datetime] = _utc_now) -> None:
        """Prepare; `now` is the time of the nodes, the server has its own."""
        self.namespace = f"fault-{next(cluster.numbers)}"
        self.url = ""
        self.now = now
        self._cluster = cluster
        self._mirror = Mirror()
        self._mirror.seed(NODES, cluster.nodes)
        self._acts: asyncio.Queue[_Act] = asyncio.Queue()
        self._stack = AsyncExitStack()
        self._errors: list[BaseException] = []

    # start and stop ----------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Create the namespace, watch it, and start the proxy."""
        self._admin = await self._session(self._cluster.admin_tls)
        upstream = await self._session(self._cluster.operator_tls)
        self._proxy = Proxy(self._cluster, upstream, self.namespace)
        namespace = {"metadata": {"name": self.namespace}}
        await self._ask(_Act("POST", NAMESPACES, "/api/v1/namespaces", namespace, late=frozenset()))
        for kind in MIRRORED:
            self._start(self._follow(kind))
        self._start(self._work())
        app = web.Application(client_max_size=4 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._proxy.serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01, handle_signals=False)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        self._stack.callback(self._proxy.break_streams)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop. What is in the namespace stays; the control plane is thrown away as a whole."""
        await self._stack.aclose()

    async def _session(self, tls: ssl.SSLContext) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=0, ssl=tls)
        session = aiohttp.ClientSession(connector=connector, timeout=REQUEST_LIMIT, trust_env=False)
        return await self._stack.enter_async_context(session)

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)

        async def end() -> None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

        self._stack.push_async_callback(end)

    # clients -----------------------------------------------------------------------------

    def grant_operator_role(self, token: str) -> None:
        """Give this token the rights of the operator's ServiceAccount."""
        self._proxy.granted.add(token)

    def kill_client(self, token: str) -> None:
        """Kill the client with this token: its connections break, and nothing that it still sends arrives."""
        self._proxy.connections.kill_client(token)

    @property
    def faults(self) -> Faults:
        """Return the active faults."""
        return self._proxy.faults

    @property
    def log(self) -> Log:
        """Return the audit log of the clients' requests."""
        return self._proxy.log

    # direct access for tests -------------------------------------------------------------

    def get(self, plural: str, namespace: str, name: str) -> Object | None:
        """Return the object, or None."""
        return self._mirror.get(_kind(plural), (namespace, name))

    def list(self, plural: str, namespace: str | None = None) -> list[Object]:
        """Return all objects of a kind in this namespace, ordered by name."""
        return self._mirror.items(_kind(plural), namespace or "")

    def create(self, plural: str, body: Object, namespace: str | None = None) -> None:
        """Create an object as an administrator."""
        kind = _kind(plural)
        typed = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        path = self._path(kind, namespace or self.namespace)
        self._acts.put_nowait(_Act("POST", kind, path, typed, late=frozenset()))

    def patch(self, plural: str, namespace: str, name: str, body: Any, *, subresource: str = "") -> None:
        """Merge-patch this incarnation of an object, or its status."""
        kind = _kind(plural)
        path = self._path(kind, namespace, name, subresource)
        this = {"metadata": {**body.get("metadata", {}), "uid": self._uid(kind, namespace, name)}}
        self._acts.put_nowait(_Act("PATCH", kind, path, {**body, **this}, MERGE_PATCH))

    def delete(self, plural: str, namespace: str, name: str, *, grace_seconds: int | None = None) -> None:
        """Delete this incarnation of an object, with its kind's own grace unless said."""
        kind = _kind(plural)
        options: Object = {"preconditions": {"uid": self._uid(kind, namespace, name)}}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        self._acts.put_nowait(_Act("DELETE", kind, self._path(kind, namespace, name), options))

    def _uid(self, kind: Kind, namespace: str, name: str) -> str:
        found = self._mirror.get(kind, (namespace, name))
        if found is None:
            raise KeyError(f"no {kind.plural}/{name} is visible in {namespace}")
        return str(found["metadata"]["uid"])

    def limit_pods(self, most: int) -> None:
        """Set a quota for pods; its status is written at once instead of by its controller."""
        hard = {"pods": str(most)}
        path = self._path(QUOTAS, self.namespace)
        quota = {"metadata": {"name": QUOTA}, "spec": {"hard": hard}}
        self._acts.put_nowait(_Act("POST", QUOTAS, path, quota, late=frozenset()))
        status = {"status": {"hard": hard, "used": {"pods": str(len(self.list("pods")))}}}
        self._acts.put_nowait(_Act("PATCH", QUOTAS, f"{path}/{QUOTA}/status", status, MERGE_PATCH))

    def lift_limits(self) -> None:
        """Remove the quota."""
        self._acts.put_nowait(_Act("DELETE", QUOTAS, self._path(QUOTAS, self.namespace, QUOTA), {}))

    def bind(self, pod: Object, node: str) -> Object:
        """Bind a pod to a node, as a scheduler does; returns the pod as it will be."""
        metadata = pod["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = self._path(PODS, metadata["namespace"], metadata["name"], "binding")
        self._acts.put_nowait(_Act("POST", PODS, path, binding))
        return {**pod, "spec": {**pod["spec"], "nodeName": node}}

    def confirm_deletion(self, pod: Object) -> None:
        """Confirm that a deleted pod has ended, as its kubelet does."""
        metadata = pod["metadata"]
        self.delete("pods", metadata["namespace"], metadata["name"], grace_seconds=0)

    async def settled(self) -> None:
        """Wait until all writes of the methods above are visible. Raises the first error."""
        await self._acts.join()
        if self._errors:
            raise self._errors[0]

    @property
    def revision(self) -> int:
        """Return the revision, which grows with every commit."""
        return self._mirror.revision

    def on_commit(self, listener: Callable[[Commit], None]) -> Callable[[], None]:
        """Call `listener` at every commit, in order; the returned function removes it."""
        return self._mirror.listen(listener)

    async def _work(self) -> None:
        while True:
            act = await self._acts.get()
            try:
                await self._do(act)
            except (aiohttp.ClientError, AssertionError, TimeoutError) as error:
                self._errors.append(error)
            finally:
                self._acts.task_done()

    async def _do(self, act: _Act) -> None:
        answer = await self._ask(act)
        if act.kind not in MIRRORED or not answer:
            return
        if act.method == "DELETE":
            uid = act.body["preconditions"]["uid"]
            await self._mirror.until(lambda: self._ends(act.kind, uid))
        elif "resourceVersion" in answer["metadata"]:
            revision = int(answer["metadata"]["resourceVersion"])
            await self._mirror.until(lambda: self._mirror.seen(act.kind) >= revision)

    def _ends(self, kind: Kind, uid: str) -> bool:
        """Tell whether a deletion is visible."""
        left = [obj for obj in self._mirror.items(kind, "") if obj["metadata"]["uid"] == uid]
        return all(obj["metadata"].get("deletionTimestamp") for obj in left)

    async def _ask(self, act: _Act) -> Object:
        """Return the answer; empty for a change that came too late."""
        url, headers = self._cluster.admin.server + act.path, {"Content-Type": act.content_type}
        async with self._admin.request(act.method, url, data=json.dumps(act.body), headers=headers) as said:
            text = await said.text()
        if act.late and (said.status in act.late or ANOTHER_INCARNATION in text):
            return {}
        assert said.status < ERRORS_FROM, f"the API server refused {act.method} {act.path}: {text}"
        answer: Object = json.loads(text)
        return answer

    async def _follow(self, kind: Kind) -> None:
        """Feed every commit to the mirror, starting with the empty namespace."""
        url = f"{self._cluster.admin.server}{self._path(kind, self.namespace)}"
        query = {"watch": "true", "timeoutSeconds": "3000"}
        while True:
            async with self._admin.get(url, params=query, timeout=WITHOUT_LIMIT) as stream:
                if stream.status == web.HTTPTooManyRequests.status_code:  # a new kind's watches are not ready at once
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                async for line in lines(stream.content):
                    event = json.loads(line)
                    assert event.get("type") in set(EventType), f"the watch of {kind.plural} was told {event}"
                    self._mirror.tell(kind, event)
                    query["resourceVersion"] = event["object"]["metadata"]["resourceVersion"]

    def _path(self, kind: Kind, namespace: str, name: str = "", subresource: str = "") -> str:
        place = ("namespaces", namespace, kind.plural) if kind.namespaced else (kind.plural,)
        return "/".join((kind.root, *place, *filter(None, (name, subresource))))

    # faults, by plural names -------------------------------------------------------------

    def freeze(self, plural: str, *, back: int = 0) -> None:
        """Stop all watches of a kind until `thaw`. Events that were sent cannot be undone, so `back` has no effect."""
        self._proxy.freeze(_kind(plural))

    def thaw(self, plural: str) -> None:
        """Streams get what they missed."""
        self._proxy.thaw(_kind(plural))

    def drop_events(self, lost: Callable[[Commit], bool]) -> Callable[[], None]:
        """Streams never see the commits for which `lost` is true; the answer ends that."""
        return self._proxy.drop_events(lost)

    def forget_history(self) -> None:
        """Answer watches from present and older revisions with 410."""
        self._proxy.oldest = self._mirror.revision

    def break_streams(self, plural: str | None = None) -> None:
        """End the watch streams of one kind, or all."""
        self._proxy.break_streams(_kind(plural) if plural else None)


def _kind(plural: str) -> Kind:
    kind = find(plural)
    if kind is None:
        raise KeyError(f"{plural!r} is not a kind that tests know")
    return kind
