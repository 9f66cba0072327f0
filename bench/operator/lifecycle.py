"""The operator beside many running jobs: requests of a job's lifecycle, idling, replacement, start, memory.

Pods run at once, without containers.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median

from bench.operator import load, meter, subject
from bench.operator.creation import count_by_kind, for_jobs
from bench.operator.fleet import Fleet, for_each
from bench.operator.subject import OperatorProcess
from dtj_operator.api.enums import Role
from dtj_operator.api.job import Job
from dtj_operator.api.trainer_contract import EXIT_KILLED
from dtj_operator.builders.pod import build_pod
from dtj_operator.kube.resources import JOBS, PODS
from e2e.cluster.audit import Request

STANDING = "standing"
"""The namespace of the jobs that run all the time."""
BASELINE = "baseline"
"""The namespace of the job whose pod the bench replaces itself."""
LIFECYCLES = "lives"
LIMIT = 900.0
REPLACEMENT_LIMIT = 30.0
SETTLE_SECONDS = 5.0
PAUSE_SECONDS = 0.3
"""Between two failures, so that the operator is idle when each happens."""
GROUP = 20
"""Failures on each side that are accepted or discarded together: a quarter of a minute."""
QUIET_PERCENT = 2.0
"""The most processor time that the host may steal from an undisturbed group."""
MOST_TIMES = 3
"""How many times as many groups are measured at most, where the host stays busy."""


@dataclass(frozen=True, slots=True)
class Lifecycles:
    """Jobs from their creation to their success."""

    requests: Counter[str]
    jobs: int

    @property
    def requests_per_job(self) -> float:
        return self.requests.total() / self.jobs


@dataclass(frozen=True, slots=True)
class Idle:
    """A period in which nothing happens."""

    writes: int
    """Writes but for those to the operator's Lease."""
    cpu_percent: float
    """Of one core."""
    requests: Counter[str]


async def start_jobs(fleet: Fleet, jobs: int) -> float:
    """Start so many jobs; returns the seconds until all were Running."""
    began = time.monotonic()
    await fleet.make(STANDING, load.names(jobs))
    await fleet.wait_for_phase(STANDING, "Running", jobs, LIMIT)
    return time.monotonic() - began


async def full_lifecycles(fleet: Fleet, jobs: int) -> Lifecycles:
    """Run new jobs beside the others: created, Running, every worker done, Succeeded."""
    mark = fleet.control_plane.audit.mark()
    await fleet.make(LIFECYCLES, load.names(jobs))
    await fleet.wait_for_phase(LIFECYCLES, "Running", jobs, LIMIT)
    await asyncio.sleep(SETTLE_SECONDS)
    pods = [f"{name}-worker-{index}" for name in load.names(jobs) for index in range(load.WORKERS)]
    await for_each(pods, lambda pod: fleet.end_pod(LIFECYCLES, pod, 0))
    await fleet.wait_for_phase(LIFECYCLES, "Succeeded", jobs, LIMIT)
    await asyncio.sleep(SETTLE_SECONDS)
    asked = [request for request in _operators(fleet, mark) if request.namespace == LIFECYCLES]
    await fleet.clear(LIFECYCLES)
    return Lifecycles(count_by_kind(asked), jobs)


async def idle(fleet: Fleet, running: OperatorProcess, seconds: float) -> Idle:
    """Wait until everything is quiet, then measure for so many seconds."""
    await asyncio.sleep(SETTLE_SECONDS)
    mark, used = fleet.control_plane.audit.mark(), running.cpu_seconds()
    await asyncio.sleep(seconds)
    used = running.cpu_seconds() - used
    asked = fleet.control_plane.audit.since(mark, user_agent=subject.USER_AGENT)
    writes = [request for request in asked if request.writes and request.resource != "leases"]
    return Idle(len(writes), 100 * used / seconds, count_by_kind(asked))


@dataclass(frozen=True, slots=True)
class Replacements:
    """Seconds from each failure to the successor, by the API server's clock."""

    operator: list[float]
    floor: list[float]
    """The same three writes, one after the other, by a client that knows of the failure at once."""
    stolen_percent: float
    """Of the processor time that was wanted meanwhile, what the host of this machine gave to others."""


async def replacements(fleet: Fleet, names: list[str], samples: int, workers: int = load.WORKERS) -> list[Replacements]:
    """Measure one failure at a time, of pods of these jobs, alternating with the bench's own pod, in equal groups.

    While the host takes the processor away, both sides take longer; so disturbed groups are measured again, up to
    three times as many in all (see `least_disturbed`). The container was killed (137): such a restart is free and
    has no backoff.
    """
    baseline = await _BaselineJob.made(fleet, workers)
    wanted = _groups(samples)
    # Of a job that fails again the pod before that of the last time, so that none fails again and again.
    turns = Counter[str]()
    victims = []
    for name in _spread(names, MOST_TIMES * wanted * GROUP):
        victims.append(f"{name}-worker-{workers - 1 - turns[name] % workers}")
        turns[name] += 1
    found: list[Replacements] = []
    while len(found) < MOST_TIMES * wanted and sum(one.stolen_percent < QUIET_PERCENT for one in found) < wanted:
        begin = GROUP * len(found)
        found.append(await _replaced(fleet, baseline, victims[begin : begin + GROUP]))
    return found


def least_disturbed(groups: list[Replacements], samples: int) -> list[Replacements]:
    """Return the groups from which the host stole least, enough for so many samples."""
    return sorted(groups, key=lambda one: one.stolen_percent)[: _groups(samples)]


def _groups(samples: int) -> int:
    return math.ceil(samples / GROUP)


async def _replaced(fleet: Fleet, baseline: _BaselineJob, victims: list[str]) -> Replacements:
    mark, stolen = fleet.control_plane.audit.mark(), meter.stolen_percent()
    for victim in victims:
        await fleet.end_pod(STANDING, victim, EXIT_KILLED)
        await asyncio.sleep(PAUSE_SECONDS)
        await baseline.fail()
        await asyncio.sleep(PAUSE_SECONDS)
    taken = stolen()

    await _until_replaced(fleet, mark, len(victims), REPLACEMENT_LIMIT, pause=0.5)
    requests = fleet.control_plane.audit.since(mark)
    return Replacements(list(_latencies(requests, STANDING)), list(_latencies(requests, BASELINE)), taken)


class _BaselineJob:
    """A job that no operator handles, with one pod: its replacement takes only the API server's time.

    It has the status of a running job, so that the API server has the same work.
    """

    def __init__(self, fleet: Fleet, job: Job) -> None:
        self._client, self._end_pod = fleet.client, fleet.end_pod
        self._job = job
        self._body = build_pod(job, Role.WORKER, 0, 0)
        # Without the labels that make it known to operators.
        self._body["metadata"]["labels"] = {}
        self._uid = ""

    @classmethod
    async def made(cls, fleet: Fleet, workers: int) -> _BaselineJob:
        """Create the job, as large as the others, and one pod of it, in a namespace of their own."""
        fleet.control_plane.namespace(BASELINE)
        body = load.job("baseline", workers)
        body["spec"]["managedBy"] = "dtj.dev/bench"
        self = cls(fleet, Job.parse(await fleet.client.create(JOBS, BASELINE, body)))
        async for job in fleet.jobs(STANDING):
            await fleet.client.patch_status(JOBS, BASELINE, self._job.name, {"status": job["status"]})
            break
        await self._create()
        return self

    async def fail(self) -> None:
        """Fail its pod and replace it as the operator does: status, deletion, creation."""
        name = self._body["metadata"]["name"]
        await self._end_pod(BASELINE, name, EXIT_KILLED)
        patch = {"status": {"message": f"{name} is replaced: {self._uid}"}}
        await self._client.patch_status(JOBS, BASELINE, self._job.name, patch)
        await self._client.delete(PODS, BASELINE, name, uid=self._uid)
        await self._create()

    async def _create(self) -> None:
        created = await self._client.create(PODS, BASELINE, self._body)
        self._uid = created["metadata"]["uid"]


async def churn(fleet: Fleet, jobs: int) -> None:
    """Fail a pod of every job and wait for the replacements, as many at a time as the server can take."""
    mark = fleet.control_plane.audit.mark()
    await for_each(load.names(jobs), lambda name: fleet.end_pod(STANDING, f"{name}-worker-0", EXIT_KILLED))

    await _until_replaced(fleet, mark, jobs, LIMIT, pause=2.0)
    await fleet.wait_for_phase(STANDING, "Running", jobs, LIMIT)


async def _until_replaced(fleet: Fleet, mark: int, pods: int, limit: float, *, pause: float) -> None:
    async def replaced() -> int:
        return len(list(_latencies(fleet.control_plane.audit.since(mark), STANDING)))

    await fleet.until(replaced, pods, limit, "replacements", pause=pause)


async def start(fleet: Fleet, source: Path, attempt: int) -> float:
    """Return the seconds from the start of the process until a new job has its pods."""
    namespace = f"newcomer-{attempt}"
    await fleet.make(namespace, [])
    mark = fleet.control_plane.audit.mark()
    with subject.operator(fleet.control_plane, source=source) as running:
        await fleet.make(namespace, ["newcomer"])
        await fleet.wait_for_pods(namespace, load.WORKERS, LIMIT, mark)
        created = [
            request.at.timestamp()
            for request in _operators(fleet, mark)
            if request.namespace == namespace and request.verb == "create" and request.resource == "pods"
        ]
        return max(created) - running.spawned_at


async def starts(fleet: Fleet, source: Path, times: int) -> float:
    """Return the median of several starts."""
    return median([await start(fleet, source, attempt) for attempt in range(times)])


def percentile(values: list[float], share: float) -> float:
    """Return the smallest value that at least this share of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _operators(fleet: Fleet, mark: int) -> list[Request]:
    return [r for r in fleet.control_plane.audit.since(mark, user_agent=subject.USER_AGENT) if for_jobs(r)]


def _spread(names: list[str], count: int) -> list[str]:
    """Return `count` names in a fixed shuffled order, each equally often."""
    mixed = random.Random(0).sample(names, len(names))  # noqa: S311
    return [mixed[number % len(mixed)] for number in range(count)]


def _latencies(requests: list[Request], namespace: str) -> Iterator[float]:
    """Yield, for each pod that the bench failed, the seconds until a pod of its name was created."""
    failed: dict[str, datetime] = {}
    for request in sorted(requests, key=lambda r: r.at):
        if request.resource != "pods" or request.namespace != namespace:
            continue
        if request.verb == "patch" and request.user_agent.startswith("dtj-bench"):
            failed[request.name] = request.at
        elif request.verb == "create" and request.code == 201 and request.name in failed:
            yield (request.at - failed.pop(request.name)).total_seconds()
