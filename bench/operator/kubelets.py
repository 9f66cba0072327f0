"""Simulated nodes whose pods run at once: binds every pod and reports it ready, as scheduler and kubelets would.

Used instead of kwok wherever pods are replaced: kwok 0.7 deletes by name, and so repeatedly deletes the successor
instead of the pod. It also leaves more processor time to what is measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from bench.operator.fleet import Fleet
from dtj_operator.cache.indexer import Indexer
from dtj_operator.cache.namespaced_name import NamespacedName
from dtj_operator.cache.reflector import Reflector
from dtj_operator.kube.errors import KubeError
from dtj_operator.kube.resources import NODES, PODS, GroupVersionResource

COUNT = 10
"""Nodes, unless a measurement asks for more."""
AT_ONCE = 8


class Kubelets:
    """Binds and runs pods that have no node, and ends pods that are to be deleted."""

    def __init__(self, fleet: Fleet, nodes: int) -> None:
        self._client = fleet.client
        self._nodes = nodes
        self._pods = Indexer[dict[str, Any]](
            transform=lambda raw: {"metadata": raw["metadata"], "bound": bool(raw["spec"].get("nodeName"))},
            key=lambda raw: NamespacedName(raw["metadata"]["namespace"], raw["metadata"]["name"]),
            on_change=self._queue,
            changed=lambda _old, _new: True,
        )
        self._line: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._turn = 0

    async def run(self) -> None:
        """Run until cancelled."""
        for number in range(self._nodes):
            await self._client.create(NODES, None, node(f"node-{number}"))
        async with asyncio.TaskGroup() as group:
            group.create_task(Reflector(self._client, PODS, None, self._pods).run())
            for _ in range(AT_ONCE):
                group.create_task(self._work())

    def _queue(self, key: NamespacedName) -> None:
        """Queue a pod that has to be bound or ended."""
        for pod in self._pods.values(key):
            metadata = pod["metadata"]
            # What has no grace left, as a pod that has ended, the server itself removes.
            leaving = metadata.get("deletionGracePeriodSeconds", 0) > 0
            if leaving or not (pod["bound"] or metadata.get("deletionTimestamp")):
                self._line.put_nowait(metadata)

    async def _work(self) -> None:
        while True:
            metadata = await self._line.get()
            # Whatever has become of the pod meanwhile, there will be an event of it.
            with suppress(KubeError):
                await (self._end(metadata) if metadata.get("deletionTimestamp") else self._begin(metadata))

    async def _begin(self, metadata: dict[str, Any]) -> None:
        self._turn += 1
        target = f"node-{self._turn % self._nodes}"
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": target},
        }
        await self._client.create(
            GroupVersionResource("", "v1", f"pods/{metadata['name']}/binding"), metadata["namespace"], binding
        )
        status = {"status": running(self._turn)}
        await self._client.patch_status(PODS, metadata["namespace"], metadata["name"], status)

    async def _end(self, metadata: dict[str, Any]) -> None:
        await self._client.delete(PODS, metadata["namespace"], metadata["name"], uid=metadata["uid"], grace=0)


@asynccontextmanager
async def kubelets(fleet: Fleet, nodes: int = COUNT) -> AsyncIterator[None]:
    """Run the nodes within the block."""
    task = asyncio.create_task(Kubelets(fleet, nodes).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def node(name: str) -> dict[str, Any]:
    """Return a node without a Lease: its Ready condition alone counts."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": _now()}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"conditions": [ready]}}


def running(number: int) -> dict[str, Any]:
    """Return the status of a pod whose container runs and is ready."""
    now = _now()
    kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    return {
        "phase": "Running",
        "podIP": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
        "startTime": now,
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds],
        "containerStatuses": [
            {
                "name": "tensorflow",
                "image": "registry.example/team/train:1",
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "started": True,
                "state": {"running": {"startedAt": now}},
            }
        ],
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
