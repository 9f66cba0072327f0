"""The server: start, stop, and the methods that tests call."""

from __future__ import annotations

import asyncio
import contextlib
import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import yaml
from aiohttp import web

from tests.support.apiserver import patch
from tests.support.apiserver.access import Access
from tests.support.apiserver.errors import Refusal
from tests.support.apiserver.faults import Faults
from tests.support.apiserver.gc import GarbageCollector
from tests.support.apiserver.kinds import JOBS, PODS, Kind, Object, find
from tests.support.apiserver.log import Log
from tests.support.apiserver.registry import Deletion, Registry
from tests.support.apiserver.routes import Routes
from tests.support.apiserver.schema import CustomSchema
from tests.support.apiserver.storage import Commit, Storage
from tests.support.apiserver.watch import WatchCache
from tests.support.rights import rights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CRD_FILE: Final = Path(__file__).parents[3] / "crds" / "dtj.dev_distributedtrainingjobs.yaml"

OPERATOR: Final = "system:serviceaccount:dtj-system:dtj-operator"

ACCEPTING_TURNS: Final = 5
"""Iterations of the event loop from an accepted socket to a connection that the web server knows."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


class ApiServer:
    """A Kubernetes API server in this process, on loopback, over plain HTTP."""

    namespace: Final = "default"
    """The default namespace of all methods."""

    def __init__(
        self,
        *,
        now: Callable[[], datetime] = _utc_now,
        gc_delay_seconds: float = 0.02,
        bookmark_seconds: float = 60.0,
        namespaces: Sequence[str] = ("default", "kube-system", "kube-node-lease", "dtj-system"),
        crd: Path | None = CRD_FILE,
    ) -> None:
        """Create a server; `crd` is our CRD's file, without which the kind has no schema."""
        self.store = Storage()
        self.registry = Registry(self.store, now)
        self.watch_cache = WatchCache(self.store, bookmark_seconds=bookmark_seconds)
        self.access = Access()
        self.faults = Faults()
        self.log = Log()
        self.gc = GarbageCollector(self.registry, gc_delay_seconds)
        self.url = ""
        self._routes = Routes(self.registry, self.watch_cache, self.access, self.faults, self.log)
        self._runner: web.AppRunner | None = None
        for namespace in namespaces:
            self.create("namespaces", {"metadata": {"name": namespace}})
        self._install_crd(crd)

    def _install_crd(self, crd: Path | None) -> None:
        name = JOBS.qualified
        if crd is None or not crd.exists():
            self.create("customresourcedefinitions", _bare_crd(name))
            return
        loaded, schema = _load(crd)
        self.create("customresourcedefinitions", loaded)
        self.registry.schemas[JOBS.plural] = schema
        established = {"conditions": [{"type": "Established", "status": "True", "reason": "InitialNamesAccepted"}]}
        self.patch("customresourcedefinitions", "", name, {"status": established}, subresource="status")

    # start and stop ----------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Listen on a free port of 127.0.0.1."""
        app = web.Application(client_max_size=4 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._routes.serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01, handle_signals=False)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop: end all streams and free the port."""
        self.gc.stop()
        self.watch_cache.break_off()
        if self._runner is not None:
            for site in list(self._runner.sites):
                await site.stop()
            # Connections that were accepted just before are only now handed to aiohttp, which then closes them.
            for _turn in range(ACCEPTING_TURNS):
                await asyncio.sleep(0)
            await self._runner.cleanup()

    def kubeconfig(self, path: Path, *, token: str = "admin", namespace: str = "default") -> Path:
        """Write a kubeconfig for a client with this bearer token; returns its path."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": self.url}}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}],
            "current-context": "test",
        }
        path.write_text(json.dumps(config))
        return path

    def grant_operator_role(self, token: str) -> None:
        """Grant this token the operator's roles in the chart, and no other rights."""
        for namespace, rules in rights():
            self.access.grant(token, OPERATOR, rules, namespace or None)

    def kill_client(self, token: str) -> None:
        """Kill the client with this token: its connections break, and nothing that it still sends arrives."""
        self._routes.connections.kill_client(token)

    # direct access for tests -------------------------------------------------------------

    def create(self, plural: str, body: Object, namespace: str | None = None) -> Object:
        """Create an object as an administrator; the namespace is the body's, else `default`."""
        kind = _kind(plural)
        place = namespace or body.get("metadata", {}).get("namespace") or self.namespace
        return self.registry.create(kind, place if kind.namespaced else "", body)

    def get(self, plural: str, namespace: str, name: str) -> Object | None:
        """Return the object, or None."""
        return self.store.get(_kind(plural), (namespace, name))

    def list(self, plural: str, namespace: str | None = None) -> list[Object]:
        """Return all objects of a kind, ordered by name."""
        return [obj for _, obj in self.store.items(_kind(plural), namespace)]

    def patch(self, plural: str, namespace: str, name: str, body: Any, *, subresource: str = "") -> Object:
        """Merge-patch an object or its status."""
        return self.registry.patch(_kind(plural), namespace, name, body, patch.MERGE_PATCH, subresource=subresource)

    def delete(self, plural: str, namespace: str, name: str, *, grace_seconds: int | None = None) -> Object:
        """Delete an object, with its kind's own grace unless said."""
        return self.registry.delete(_kind(plural), namespace, name, Deletion(grace_seconds=grace_seconds))[0]

    def bind(self, pod: Object, node: str) -> Object:
        """Bind a pod to a node, as a scheduler does; returns the bound pod."""
        metadata = pod["metadata"]
        bound = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        return self.store.put(PODS, (metadata["namespace"], metadata["name"]), bound)

    def confirm_deletion(self, pod: Object) -> None:
        """Confirm that a deleted pod has ended, as its kubelet does; does nothing if it is gone."""
        metadata = pod["metadata"]
        with contextlib.suppress(Refusal):
            this = Deletion(grace_seconds=0, uid=metadata["uid"])
            self.registry.delete(PODS, metadata["namespace"], metadata["name"], this)

    async def settled(self) -> None:
        """Wait until all writes of the methods above are visible: here they are at once."""

    def now(self) -> datetime:
        """Return the time of the server and its nodes."""
        return self.registry.now()

    @property
    def revision(self) -> int:
        """Return the revision, which grows with every commit."""
        return self.store.revision

    def on_commit(self, listener: Callable[[Commit], None]) -> Callable[[], None]:
        """Call `listener` within every commit; the returned function removes it."""
        return self.store.listen(listener)

    def limit_pods(self, most: int) -> None:
        """Set a quota for pods."""
        self.registry.pod_quota[self.namespace] = most

    def lift_limits(self) -> None:
        """Remove the quota."""
        self.registry.pod_quota.clear()

    # faults, by plural names -------------------------------------------------------------

    def freeze(self, plural: str, *, back: int = 0) -> None:
        """Freeze the watch cache at the state of `back` revisions ago, for watches and cached lists, until `thaw`."""
        self.watch_cache.freeze(_kind(plural), back)

    def thaw(self, plural: str) -> None:
        """Unfreeze the watch cache; streams get what they missed."""
        self.watch_cache.thaw(_kind(plural))

    def delay(self, plural: str, seconds: float) -> None:
        """Delay watch events of this kind."""
        self.watch_cache.delay(_kind(plural), seconds)

    def drop_events(self, lost: Callable[[Commit], bool]) -> Callable[[], None]:
        """Hide the commits for which `lost` is true from streams; the returned function ends that."""
        return self.watch_cache.drop_events(lost)

    def forget_history(self) -> None:
        """Compact the history: old resourceVersions and continue tokens are answered 410."""
        self.store.compact()

    def break_streams(self, plural: str | None = None) -> None:
        """End the watch streams of one kind, or all."""
        self.watch_cache.break_off(_kind(plural) if plural else None)


@cache
def _load(crd: Path) -> tuple[Object, CustomSchema]:
    """Load the CRD once per process: parsing takes longer than most tests."""
    loaded = yaml.load(crd.read_text(), yaml.CSafeLoader)
    return loaded, CustomSchema.of(loaded, JOBS.version)


def _kind(plural: str) -> Kind:
    kind = find(plural)
    if kind is None:
        message = f"this server does not serve {plural!r}"
        raise KeyError(message)
    return kind


def _bare_crd(name: str) -> Object:
    names = {"plural": JOBS.plural, "singular": JOBS.kind.lower(), "kind": JOBS.kind, "shortNames": ["dtj"]}
    version = {"name": JOBS.version, "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "metadata": {"name": name},
        "spec": {"group": JOBS.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
