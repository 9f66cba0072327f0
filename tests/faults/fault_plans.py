"""Fault plans: every workload, disturbed at every write of the operator in each way, against its undisturbed run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tests.faults.fault_cluster import FaultCluster, NotReached
from tests.faults.invariant_monitor import InvariantMonitor
from tests.faults.invariants import State, Tracebacks, difference, end_state
from tests.support.apiserver import Answer, Cut, Meanwhile, gateway_timeout, too_many_requests
from tests.support.operator_process import USER_AGENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.fault_cluster import Backend
    from tests.faults.workloads import Workload
    from tests.support.apiserver.faults import Outcome

FORBIDDEN: Final = 403
SPARE_WRITES: Final = 12
"""Writes that a disturbed run may need beyond three times those of the undisturbed one."""


class Disturbance(StrEnum):
    """What happens at a write; each once per run."""

    CRASH_BEFORE = "crash before the write arrives"
    CRASH_AFTER = "crash after the commit, before the answer"
    TIMEOUT_AFTER = "504 after the commit"
    LAG = "watches lag behind from before the commit on"
    CRASH_INTO_LAG = "crash after the commit, and a restart with watches that lag"
    MISSED_EVENTS = "streams broken and history compacted, lists refused for a while"
    SERVER_ERROR = "500 instead of the write"
    THROTTLED = "429 instead of the write"
    OVERTAKEN = "somebody changes the job just before the write arrives"


EVERY_WRITE: Final = (Disturbance.CRASH_BEFORE, Disturbance.CRASH_AFTER, Disturbance.TIMEOUT_AFTER)
OTHERS: Final = tuple(how for how in Disturbance if how not in EVERY_WRITE)

Strides = Mapping[Disturbance, int]
"""What is tried: each disturbance at every so many writes, each beginning at another one."""

STRIDES: Final[Strides] = dict.fromkeys(EVERY_WRITE, 1) | dict.fromkeys(OTHERS, 4)
STRIDES_ON_REAL: Final[Strides] = dict.fromkeys(Disturbance, 12) | {
    Disturbance.CRASH_BEFORE: 1,
    Disturbance.CRASH_AFTER: 1,
}
"""What `make faults` tries on a real server."""
SAMPLE_ON_REAL: Final[Strides] = dict.fromkeys(Disturbance, 24) | {
    Disturbance.CRASH_BEFORE: 2,
    Disturbance.CRASH_AFTER: 2,
}
"""What `make test` tries there: every write is disturbed, alternating before and after its commit."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The undisturbed run."""

    state: State
    writes: tuple[str, ...]
    """The operator's writes, in order, for people."""
    restarts: object


@dataclass(frozen=True, slots=True)
class Plan:
    """One disturbed run."""

    workload: Workload
    disturbance: Disturbance
    write: int

    def __str__(self) -> str:
        """For people."""
        return f"{self.workload.name}: {self.disturbance} at write {self.write}"


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a plan. All is well when nothing is listed."""

    plan: Plan
    hit: str
    """The write that was disturbed; empty when the run had fewer writes."""
    differences: tuple[str, ...] = ()
    double_pods: tuple[str, ...] = ()
    lost_charges: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Tracebacks, hot loops, clusters that never become quiet, workloads that never ended."""

    @property
    def violations(self) -> tuple[str, ...]:
        """All violations."""
        return self.differences + self.double_pods + self.lost_charges + self.others

    def __str__(self) -> str:
        """For people."""
        return f"{self.plan} ({self.hit or 'not reached'}): " + "; ".join(self.violations)


async def run_undisturbed(backend: Backend, workload: Workload) -> Reference:
    """Run a workload undisturbed."""
    async with FaultCluster(backend) as cluster:
        monitor = InvariantMonitor(cluster)
        await cluster.start_operator().ready()
        cluster.apply(workload.job)
        await workload.drive(cluster)
        await cluster.quiet()
        if monitor.violations:
            raise AssertionError(f"{workload.name}, undisturbed: {'; '.join(monitor.violations)}")
        writes = tuple(request.target for request in cluster.writes() if request.changed)
        return Reference(end_state(cluster), writes, cluster.status.get("restarts"))


async def run(backend: Backend, plan: Plan, reference: Reference, tracebacks: Tracebacks) -> Result:
    """Run a workload with one disturbance."""
    async with FaultCluster(backend) as cluster:
        monitor = InvariantMonitor(cluster)
        await cluster.start_operator().ready()
        hit = _install_fault(cluster, plan)
        cluster.apply(plan.workload.job)
        others: list[str] = []
        try:
            await plan.workload.drive(cluster)
            await _wait_for_end_state(cluster, reference)
            await cluster.quiet()
        except NotReached as problem:
            others.append(str(problem))
        others += [f"traceback in the log: {text}" for text in tracebacks.of(cluster)]
        others += [f"{operator.token} ended: {operator.error!r}" for operator in cluster.operators if operator.error]
        allowed = 3 * len(reference.writes) + SPARE_WRITES
        if len(cluster.writes()) > allowed:
            others.append(f"{len(cluster.writes())} writes, undisturbed {len(reference.writes)}: a hot loop")
        others += [
            f"denied: {request.target}" for request in cluster.server.log.select(lambda it: it.code == FORBIDDEN)
        ]
        others += monitor.repeated_successes
        lost = list(monitor.decreased_counts)
        if cluster.status.get("restarts") != reference.restarts:
            lost.append(f"restarts are {cluster.status.get('restarts')}, undisturbed {reference.restarts}")
        return Result(
            plan,
            hit(),
            tuple(difference(reference.state, end_state(cluster))),
            tuple(monitor.double_pods),
            tuple(lost),
            tuple(others),
        )


def _install_fault(cluster: FaultCluster, plan: Plan) -> Callable[[], str]:
    """Install the fault; the returned function tells later which write it hit."""
    outcomes: dict[Disturbance, Outcome] = {
        Disturbance.CRASH_BEFORE: Cut(after_commit=False, first=cluster.crash),
        Disturbance.CRASH_AFTER: Cut(after_commit=True, first=cluster.crash),
        Disturbance.TIMEOUT_AFTER: gateway_timeout(),
        Disturbance.LAG: Meanwhile(cluster.lag, after_commit=False),
        Disturbance.CRASH_INTO_LAG: Cut(after_commit=True, first=cluster.crash_and_lag),
        Disturbance.MISSED_EVENTS: Meanwhile(cluster.lose_events, after_commit=True),
        Disturbance.SERVER_ERROR: Answer(500),
        Disturbance.THROTTLED: too_many_requests(1),
        Disturbance.OVERTAKEN: Meanwhile(cluster.touch, after_commit=False),
    }
    at = len(cluster.writes()) + plan.write
    rule = cluster.server.faults.on_write(plan.write, outcomes[plan.disturbance], user_agent=USER_AGENT)
    return lambda: cluster.writes()[at].target if rule.hits else ""


async def _wait_for_end_state(cluster: FaultCluster, reference: Reference) -> None:
    with contextlib.suppress(NotReached):  # the comparison that follows says where they differ
        await cluster.until_settled_as(lambda: end_state(cluster) == reference.state, "the undisturbed end state")


async def run_all(backend: Backend, workload: Workload, strides: Strides) -> list[Result]:
    """Run all plans of a workload."""
    reference = await run_undisturbed(backend, workload)
    plans = [
        Plan(workload, how, at)
        for how, step in strides.items()
        for at in range(list(Disturbance).index(how) % step, len(reference.writes), step)
    ]
    tracebacks = Tracebacks()
    logging.getLogger("dtj_operator").addHandler(tracebacks)
    slots = asyncio.Semaphore(backend.at_once)

    async def one(plan: Plan) -> Result:
        async with slots:
            return await run(backend, plan, reference, tracebacks)

    try:
        return list(await asyncio.gather(*(one(plan) for plan in plans)))
    finally:
        logging.getLogger("dtj_operator").removeHandler(tracebacks)
