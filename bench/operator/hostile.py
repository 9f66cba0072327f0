"""Jobs that are made to hurt: how long others wait meanwhile, and how much memory the operator takes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.operator import load, subject
from bench.operator.fleet import Fleet, for_each, log
from dtj_operator.kube.errors import KubeError
from dtj_operator.kube.resources import JOBS, PODS
from e2e.cluster.audit import Request
from tests.support.hostile_manifests import HOSTILE, fuzzed

NAMESPACE = "hostile"
NEIGHBOURS = "neighbours"
NEIGHBOUR_SECONDS = 0.5
"""Between two neighbours, which are ordinary jobs."""
CALM_SECONDS = 5.0
"""Before the first hostile job."""
AT_ONCE = 4
LIMIT = 600.0
CREATED = 201


@dataclass(frozen=True, slots=True)
class Hostility:
    """What hostile jobs have cost."""

    manifests: int
    """Those that the API server has accepted."""
    delay_seconds: float
    """How much longer a neighbour waited at most for its pods than the median of those before the hostile jobs."""
    rss_mb: float


async def endure(fleet: Fleet, count: int, source: Path) -> Hostility:
    """Create so many fuzzed jobs and the hostile ones, with neighbours all the while. Raises if the operator ends."""
    specs = [*HOSTILE.values(), *fuzzed(count)]
    log(f"{len(specs)} hostile jobs, and a neighbour every {NEIGHBOUR_SECONDS} s")
    fleet.control_plane.namespace(NAMESPACE)
    await fleet.make(NEIGHBOURS, [])
    mark = fleet.control_plane.audit.mark()
    accepted = 0

    async def create(numbered: tuple[int, dict[str, Any]]) -> None:
        nonlocal accepted
        number, spec = numbered
        body = load.job(f"hostile-{number:05d}") | {"spec": spec}
        with suppress(KubeError):  # what the server refuses hurts nobody
            await fleet.client.create(JOBS, NAMESPACE, body)
            accepted += 1

    with subject.operator(fleet.control_plane, source=source) as operator:
        operator.wait_ready()
        neighbours = asyncio.create_task(_neighbours(fleet))
        await asyncio.sleep(CALM_SECONDS)
        calm = [job["metadata"]["name"] async for job in fleet.jobs(NEIGHBOURS)]
        await for_each(enumerate(specs), create, AT_ONCE)
        await asyncio.sleep(10 * NEIGHBOUR_SECONDS)
        neighbours.cancel()
        await asyncio.gather(neighbours, return_exceptions=True)
        made = sum([1 async for _ in fleet.jobs(NEIGHBOURS)])
        await fleet.wait_for_pods(NEIGHBOURS, made * load.WORKERS, LIMIT, mark)
        operator.wait_ready()
        waited = _waiting_times(fleet.control_plane.audit.since(mark))
        delay = max(waited.values()) - median(waited[name] for name in calm)
        return Hostility(accepted, delay, operator.peak_rss_mb())


async def _neighbours(fleet: Fleet) -> None:
    for name in load.names(100_000):
        await fleet.client.create(JOBS, NEIGHBOURS, load.job(name))
        await asyncio.sleep(NEIGHBOUR_SECONDS)


def _waiting_times(requests: list[Request]) -> dict[str, float]:
    """Return, by neighbour, the seconds from its creation to that of its last pod."""
    created: dict[str, datetime] = {}
    waited: dict[str, float] = {}
    for request in sorted(requests, key=lambda request: request.at):
        if request.namespace != NEIGHBOURS or request.verb != "create" or request.code != CREATED:
            continue
        if request.resource == JOBS.plural:
            created[request.name] = request.at
        elif request.resource == PODS.plural:
            name = request.name.rpartition("-worker-")[0]
            waited[name] = (request.at - created[name]).total_seconds()
    return waited
