"""Many jobs on one API server: created, counted, disturbed and removed, as fast as the server allows.

Uses the user agent `dtj-bench`, so that the audit log tells these requests from the operator's.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from bench.operator import load
from dtj_operator.api.crd import crd
from dtj_operator.kube.client import ApiClient
from dtj_operator.kube.errors import NotFound
from dtj_operator.kube.kubeconfig import load_config
from dtj_operator.kube.resources import JOBS, PODS, SERVICES, GroupVersionResource
from e2e.cluster.control_plane import ControlPlane

USER_AGENT = "dtj-bench"
AT_ONCE = 16
POLL_SECONDS = 0.2
TELL_SECONDS = 15.0
"""Seconds between two progress lines of a wait."""
CRDS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")


class TooSlowError(Exception):
    """Something did not happen within its limit."""


class Fleet:
    """A client with administrator's rights that handles many jobs of one control plane."""

    def __init__(self, control_plane: ControlPlane, client: ApiClient) -> None:
        self.control_plane = control_plane
        self.client = client

    async def make(self, namespace: str, names: Iterable[str], workers: int = load.WORKERS) -> None:
        """Create the namespace and a job for each name."""
        self.control_plane.namespace(namespace)
        await for_each(names, lambda name: self.client.create(JOBS, namespace, load.job(name, workers)))

    async def wait_for_pods(self, namespace: str, count: int, limit: float, mark: int = 0) -> None:
        """Wait until `count` pods were created in the namespace since `mark`; reads the audit log alone."""
        seen = Creations(self.control_plane.audit.path, namespace, mark)

        async def created() -> int:
            return seen.count()

        await self.until(created, count, limit, f"pods in namespace {namespace}")

    async def wait_for_phase(self, namespace: str, phase: str, count: int, limit: float) -> None:
        """Wait until `count` jobs are in that phase."""

        async def in_phase() -> int:
            return [job.get("status", {}).get("phase") async for job in self.jobs(namespace)].count(phase)

        await self.until(in_phase, count, limit, f"jobs {phase}", pause=1.0)

    async def clear(self, namespace: str) -> None:
        """Delete the jobs, services and pods of a namespace, at once."""
        for resource in (JOBS, PODS, SERVICES):
            async for page in self.client.list_pages(resource, namespace, limit=1000):
                await for_each(page.items, partial(self._delete, resource, namespace))

    async def jobs(self, namespace: str) -> AsyncIterator[dict[str, Any]]:
        """Yield every job of a namespace."""
        async for page in self.client.list_pages(JOBS, namespace, limit=500):
            for item in page.items:
                yield item

    async def end_pod(self, namespace: str, name: str, exit_code: int) -> float:
        """Report that a pod's container has ended; returns when the server had accepted that (epoch seconds)."""
        await self.client.patch_status(PODS, namespace, name, {"status": load.ended(exit_code)})
        return time.time()

    async def _delete(self, resource: GroupVersionResource, namespace: str, item: dict[str, Any]) -> None:
        metadata = item["metadata"]
        with suppress(NotFound):  # the garbage collector was faster
            await self.client.delete(resource, namespace, metadata["name"], uid=metadata["uid"], grace=0)

    async def until(
        self, count: Callable[[], Awaitable[int]], wanted: int, limit: float, what: str, pause: float = POLL_SECONDS
    ) -> None:
        """Poll until there are `wanted`, and log the progress; TooSlowError after `limit` seconds."""
        began = told = time.monotonic()
        while (found := await count()) < wanted:
            now = time.monotonic()
            if now > began + limit:
                raise TooSlowError(f"after {limit:.0f} s there are {found} of {wanted} {what}")
            if now > told + TELL_SECONDS:
                told = now
                log(f"{found} of {wanted} {what}")
            await asyncio.sleep(pause)


class Creations:
    """A reader of the audit log that counts the pods created in one namespace."""

    def __init__(self, log: Path, namespace: str, mark: int = 0) -> None:
        """Begin at `mark`: the log grows to hundreds of megabytes."""
        self._log = log
        self._namespace = f'"resource":"pods","namespace":"{namespace}"'.encode()
        self._offset = mark
        self._rest = b""
        self._found = 0

    def count(self) -> int:
        """Return how many were created so far."""
        with self._log.open("rb") as log:
            log.seek(self._offset)
            text = self._rest + log.read()
            self._offset = log.tell()
        *lines, self._rest = text.split(b"\n")
        self._found += sum(
            self._namespace in line and b'"verb":"create"' in line and b'"code":201' in line for line in lines
        )
        return self._found


@asynccontextmanager
async def fleet(control_plane: ControlPlane) -> AsyncIterator[Fleet]:
    """Install the CRD, and yield a fleet."""
    here = load_config(str(control_plane.kubeconfig), {})
    async with ApiClient(here, user_agent=USER_AGENT) as client:
        await client.create(CRDS, None, crd())
        found = Fleet(control_plane, client)

        async def established() -> int:
            status = (await client.get(CRDS, None, f"{JOBS.plural}.{JOBS.group}")).get("status") or {}
            return sum(c["type"] == "Established" and c["status"] == "True" for c in status.get("conditions") or ())

        await found.until(established, 1, 30, "established CRDs", pause=0.05)
        yield found


async def for_each(items: Iterable[Any], act: Callable[[Any], Awaitable[Any]], at_once: int = AT_ONCE) -> None:
    """Call `act` for every item, `at_once` at a time."""
    line = iter(items)

    async def drain() -> None:
        for item in line:
            await act(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(drain())


def log(line: str) -> None:
    """Print a progress line to standard error."""
    print(f"· {line}", file=sys.stderr, flush=True)
