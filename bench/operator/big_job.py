"""One large job: its creation beside the bare client's, the cost of a pass, one failure, a restart of all, memory.

As many simulated nodes as pods; `kubelets` says why not kwok's.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.operator import creation, lifecycle, load, subject
from bench.operator.fleet import Fleet, log
from bench.operator.kubelets import kubelets
from dtj_operator.cache.job_cache import CachedJob
from dtj_operator.cache.transforms import pod_from_json, service_from_json
from dtj_operator.kube.resources import JOBS
from dtj_operator.reconcile.decide import decide
from dtj_operator.reconcile.state.snapshot import Snapshot
from tests.support.job_builder import JobBuilder, job

ORDINARY = 50
"""Workers of the job that the large one is compared with."""
PASSES = 20
NAME = load.names(1)[0]


@dataclass(frozen=True, slots=True)
class LargeJob:
    """What was measured of it while it ran."""

    running_seconds: float
    """From its creation until all pods were Running."""
    replacements: list[lifecycle.Replacements]
    restart_seconds: float
    """From a change of its size until all pods, which are created again, were Running."""
    rss_mb: float
    """The most resident memory of the operator."""


def pass_cpu_ratio(workers: int) -> float:
    """Return the processor time of a pass for each pod, as a ratio to that of an ordinary job."""
    return (_pass_seconds(workers) / workers) / (_pass_seconds(ORDINARY) / ORDINARY)


def _pass_seconds(workers: int) -> float:
    """Return the processor time of a pass over a running job in which nothing has changed."""
    world: JobBuilder = job(worker=workers).running()
    world.raw["metadata"]["resourceVersion"] = "1"
    cached = CachedJob(world.raw)
    pods = tuple(pod_from_json(pod) for pod in world.pods.values())
    service = service_from_json(world.service) if world.service else None
    seconds = []
    for _ in range(PASSES):
        began = time.process_time()
        decide(Snapshot(cached.parse(), pods, service), world.now)
        seconds.append(time.process_time() - began)
    return median(seconds)


async def create_ratio(fleet: Fleet, workers: int, rounds: int, source: Path) -> float:
    """Return the rate at which the operator creates the pods of one job, as a ratio to the bare client's."""
    found = creation.Comparison((), ())
    async for found in creation.pairs(fleet, 1, rounds, source, workers):
        log(f"one job of {workers}: {found.ratio:.3f} of the bare client's rate")
    return found.ratio


async def live(fleet: Fleet, workers: int, samples: int, source: Path) -> LargeJob:
    """Let the job run, lose pods one at a time, and be made smaller, which creates all its pods again."""
    async with kubelets(fleet, nodes=workers):
        with subject.operator(fleet.control_plane, source=source) as operator:
            operator.wait_ready()
            began = time.monotonic()
            await fleet.make(lifecycle.STANDING, [NAME], workers)
            await fleet.wait_for_phase(lifecycle.STANDING, "Running", 1, lifecycle.LIMIT)
            running_seconds = time.monotonic() - began
            found = await lifecycle.replacements(fleet, [NAME], samples, workers)
            began = time.monotonic()
            smaller = {"spec": {"replicaSpecs": {"worker": {"replicas": workers - 1}}}}
            await fleet.client.patch(JOBS, lifecycle.STANDING, NAME, smaller)
            await fleet.wait_for_phase(lifecycle.STANDING, "Restarting", 1, lifecycle.LIMIT)
            await fleet.wait_for_phase(lifecycle.STANDING, "Running", 1, lifecycle.LIMIT)
            return LargeJob(running_seconds, found, time.monotonic() - began, operator.peak_rss_mb())
