"""How fast the pods of many jobs are created: the bare client and the operator, alternating, on one API server.

Both begin with the jobs present and everything warm: the bare client with its requests encoded, the operator
waiting for a lease that the bench holds. The clock runs from the first answered request to the last created pod,
by the API server's own audit log.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bench.operator import bare, load, meter, subject
from bench.operator.fleet import Fleet
from dtj_operator.app.settings import LEASE_NAME
from dtj_operator.kube.resources import LEASES
from e2e.cluster.audit import Request
from e2e.cluster.control_plane import ControlPlane

CONNECTIONS = 32
LIMIT = 600.0
SETTLE_SECONDS = 4.0
"""Seconds without a request that count as quiet."""
LEASE_NAMESPACE = "default"
READS = frozenset({"list", "watch"})
NOT_FOR_JOBS = frozenset({"leases", "selfsubjectaccessreviews"})


@dataclass(frozen=True, slots=True)
class Round:
    """One run of the bare client or the operator."""

    pods_per_second: float
    requests: Counter[str]
    """Requests on behalf of the jobs until everything was quiet."""
    jobs: int
    client_seconds: float
    """Processor time of the client."""
    server_seconds: float
    """Processor time of API server and etcd."""
    others: float
    """Cores that everything else on the machine was using meanwhile."""

    @property
    def cost(self) -> float:
        """Return the processor seconds of client and server for each pod."""
        return (self.client_seconds + self.server_seconds) / self.requests["create pods"]

    @property
    def requests_per_job(self) -> float:
        return self.requests.total() / self.jobs


@dataclass(frozen=True, slots=True)
class Comparison:
    """Pairs of rounds."""

    bare: tuple[Round, ...]
    operator: tuple[Round, ...]

    @property
    def ratio(self) -> float:
        """Return the median over the pairs, so that a busy moment of the machine counts once."""
        pairs = zip(self.bare, self.operator, strict=True)
        return median(ours.pods_per_second / theirs.pods_per_second for theirs, ours in pairs)

    @property
    def cost_ratio(self) -> float:
        """Return the ratio by processor time, which other programs on the machine do not change."""
        pairs = zip(self.bare, self.operator, strict=True)
        return median(theirs.cost / ours.cost for theirs, ours in pairs)


async def pairs(
    fleet: Fleet, jobs: int, rounds: int, source: Path, workers: int = load.WORKERS
) -> AsyncIterator[Comparison]:
    """Alternate, the bare client first; yield all pairs so far after each pair."""
    found = Comparison((), ())
    for number in range(rounds):
        bare_side = await bare_round(fleet, f"bare-{number}", jobs, workers)
        await fleet.clear(f"bare-{number}")
        ours = await operator_round(fleet, f"operator-{number}", jobs, source, workers)
        found = Comparison((*found.bare, bare_side), (*found.operator, ours))
        yield found
        if len(found.bare) < rounds:
            await fleet.clear(f"operator-{number}")


async def bare_round(fleet: Fleet, namespace: str, jobs: int, workers: int, connections: int = CONNECTIONS) -> Round:
    """Run the bare client, the fastest that is possible."""
    await fleet.make(namespace, load.names(jobs), workers)
    command = [
        sys.executable,
        "-m",
        "bench.operator.bare",
        str(fleet.control_plane.kubeconfig),
        namespace,
        str(connections),
    ]
    process = subprocess.Popen(  # noqa: ASYNC220  (before the clock starts)
        command, cwd=subject.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin
    assert process.stdout
    try:
        await asyncio.to_thread(process.stdout.readline)
        mark, before = fleet.control_plane.audit.mark(), read_cpu_times(fleet.control_plane)
        process.stdin.write("go\n")
        process.stdin.flush()
        said = await asyncio.to_thread(process.stdout.readline)
        span = meter.between(before, read_cpu_times(fleet.control_plane))
        process.stdin.close()
        if process.wait(30) or not said:
            raise RuntimeError("the bare client has failed")
    finally:
        process.kill()
    used = float(said.split()[1])
    return _round(fleet.control_plane, mark, bare.USER_AGENT, namespace, jobs, used, span)


async def operator_round(
    fleet: Fleet, namespace: str, jobs: int, source: Path, workers: int, wrapper: tuple[str, ...] = ()
) -> Round:
    """Run the operator, timed from the moment that it gets the lease."""
    await fleet.make(namespace, load.names(jobs), workers)
    await hold_lease(fleet)
    with subject.operator(fleet.control_plane, source=source, wrapper=wrapper) as running:
        running.wait_ready()
        await running.come_to_rest()
        mark, used, before = (
            fleet.control_plane.audit.mark(),
            running.cpu_seconds(),
            read_cpu_times(fleet.control_plane),
        )
        await release_lease(fleet)
        await fleet.wait_for_pods(namespace, jobs * workers, LIMIT, mark)
        used, span = running.cpu_seconds() - used, meter.between(before, read_cpu_times(fleet.control_plane))
        await quiet(fleet.control_plane)
    return _round(fleet.control_plane, mark, subject.USER_AGENT, namespace, jobs, used, span)


async def quiet(control_plane: ControlPlane) -> None:
    """Wait until the operator has sent no request for a while: events and counts come after the pods."""
    asked = True
    while asked:
        mark = control_plane.audit.mark()
        await asyncio.sleep(SETTLE_SECONDS)
        asked = any(for_jobs(request) for request in control_plane.audit.since(mark, user_agent=subject.USER_AGENT))


async def hold_lease(fleet: Fleet) -> None:
    """Hold the operators' lease, so that none of them leads."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "bench", "leaseDurationSeconds": 600, "acquireTime": now, "renewTime": now}
    body = {
        "apiVersion": LEASES.api_version,
        "kind": "Lease",
        "metadata": {"name": LEASE_NAME, "namespace": LEASE_NAMESPACE},
        "spec": {**spec, "leaseTransitions": 0},
    }
    fleet.control_plane.api.delete(LEASES.path(LEASE_NAMESPACE, LEASE_NAME))
    await fleet.client.create(LEASES, LEASE_NAMESPACE, body)


async def release_lease(fleet: Fleet) -> None:
    """Release the lease, so that an operator can lead."""
    held = await fleet.client.get(LEASES, LEASE_NAMESPACE, LEASE_NAME)
    spec = {**held["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
    await fleet.client.replace(LEASES, LEASE_NAMESPACE, LEASE_NAME, {**held, "spec": spec})


def read_cpu_times(control_plane: ControlPlane) -> meter.CpuTimes:
    """Return the control plane's processor time so far."""
    init = control_plane.machine.init_pid()
    assert init is not None
    return meter.read(init)


def for_jobs(request: Request) -> bool:
    """Tell whether a request was made for a job, rather than to list, watch, or lead."""
    return request.verb not in READS and request.resource not in NOT_FOR_JOBS


def count_by_kind(requests: Iterable[Request]) -> Counter[str]:
    """Count requests by `verb resource[/subresource]`."""
    return Counter(f"{r.verb} {'/'.join(filter(None, (r.resource, r.subresource)))}" for r in requests)


def _round(
    control_plane: ControlPlane, mark: int, user_agent: str, namespace: str, jobs: int, used: float, span: meter.Span
) -> Round:
    asked = [
        r for r in control_plane.audit.since(mark, user_agent=user_agent) if for_jobs(r) and r.namespace == namespace
    ]
    refused = [r for r in asked if r.code >= 400]
    if refused:
        raise RuntimeError(f"{len(refused)} requests of {user_agent} were refused, first: {refused[0]}")
    created = [r.at for r in asked if r.verb == "create" and r.resource == "pods"]
    seconds = (max(created) - min(r.at for r in asked)).total_seconds()
    return Round(len(created) / seconds, count_by_kind(asked), jobs, used, span.server, span.others(used))
