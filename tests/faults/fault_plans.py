"""The plans: every story, disturbed at every write of the operator in each way, against its undisturbed run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tests.faults.fault_cluster import NotReached, World
from tests.faults.invariants import State, Tracebacks, Watchman, difference, end_state
from tests.support.apiserver import Answer, Cut, Meanwhile, gateway_timeout, too_many_requests
from tests.support.operator_process import USER_AGENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.fault_cluster import Stage
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
STRIDES_ON_PLANE: Final[Strides] = dict.fromkeys(Disturbance, 12) | {
    Disturbance.CRASH_BEFORE: 1,
    Disturbance.CRASH_AFTER: 1,
}
"""What `make faults` tries on a real server."""
SAMPLE_ON_PLANE: Final[Strides] = dict.fromkeys(Disturbance, 24) | {
    Disturbance.CRASH_BEFORE: 2,
    Disturbance.CRASH_AFTER: 2,
}
"""What `make test` tries there: every write is struck, by turns before and after its commit."""


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
    """What came of a plan. All is well when nothing is listed."""

    plan: Plan
    struck: str
    """The write that was disturbed; empty when the run had fewer writes."""
    differences: tuple[str, ...] = ()
    double_pods: tuple[str, ...] = ()
    lost_charges: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Tracebacks, hot loops, worlds that never come to rest, stories that never came to their end."""

    @property
    def complaints(self) -> tuple[str, ...]:
        """All that was wrong."""
        return self.differences + self.double_pods + self.lost_charges + self.others

    def __str__(self) -> str:
        """For people."""
        return f"{self.plan} ({self.struck or 'not reached'}): " + "; ".join(self.complaints)


async def learn(stage: Stage, workload: Workload) -> Reference:
    """Run a story undisturbed."""
    async with World(stage) as world:
        watchman = Watchman(world)
        await world.start_operator().ready()
        world.apply(workload.job)
        await workload.drive(world)
        await world.quiet()
        if watchman.complaints:
            raise AssertionError(f"{workload.name}, undisturbed: {'; '.join(watchman.complaints)}")
        writes = tuple(request.target for request in world.writes() if request.changed)
        return Reference(end_state(world), writes, world.status.get("restarts"))


async def run(stage: Stage, plan: Plan, reference: Reference, tracebacks: Tracebacks) -> Result:
    """Run a story with one disturbance."""
    async with World(stage) as world:
        watchman = Watchman(world)
        await world.start_operator().ready()
        struck = _arm(world, plan)
        world.apply(plan.workload.job)
        others: list[str] = []
        try:
            await plan.workload.drive(world)
            await _equal(world, reference)
            await world.quiet()
        except NotReached as problem:
            others.append(str(problem))
        others += [f"traceback in the log: {text}" for text in tracebacks.of(world)]
        others += [f"{operator.token} ended: {operator.error!r}" for operator in world.operators if operator.error]
        allowed = 3 * len(reference.writes) + SPARE_WRITES
        if len(world.writes()) > allowed:
            others.append(f"{len(world.writes())} writes, undisturbed {len(reference.writes)}: a hot loop")
        others += [f"denied: {request.target}" for request in world.server.log.select(lambda it: it.code == FORBIDDEN)]
        others += watchman.successes_run_again
        lost = list(watchman.charges_taken_back)
        if world.status.get("restarts") != reference.restarts:
            lost.append(f"restarts are {world.status.get('restarts')}, undisturbed {reference.restarts}")
        return Result(
            plan,
            struck(),
            tuple(difference(reference.state, end_state(world))),
            tuple(watchman.double_pods),
            tuple(lost),
            tuple(others),
        )


def _arm(world: World, plan: Plan) -> Callable[[], str]:
    """Prepare the disturbance. The answer tells later which write it met."""
    outcomes: dict[Disturbance, Outcome] = {
        Disturbance.CRASH_BEFORE: Cut(after_commit=False, first=world.crash),
        Disturbance.CRASH_AFTER: Cut(after_commit=True, first=world.crash),
        Disturbance.TIMEOUT_AFTER: gateway_timeout(),
        Disturbance.LAG: Meanwhile(world.lag, after_commit=False),
        Disturbance.CRASH_INTO_LAG: Cut(after_commit=True, first=world.crash_and_lag),
        Disturbance.MISSED_EVENTS: Meanwhile(world.lose_events, after_commit=True),
        Disturbance.SERVER_ERROR: Answer(500),
        Disturbance.THROTTLED: too_many_requests(1),
        Disturbance.OVERTAKEN: Meanwhile(world.touch, after_commit=False),
    }
    at = len(world.writes()) + plan.write
    rule = world.server.faults.on_write(plan.write, outcomes[plan.disturbance], user_agent=USER_AGENT)
    return lambda: world.writes()[at].target if rule.hits else ""


async def _equal(world: World, reference: Reference) -> None:
    with contextlib.suppress(NotReached):  # the comparison that follows says where they differ
        await world.until_settled_as(lambda: end_state(world) == reference.state, "the undisturbed end state")


async def run_all(stage: Stage, workload: Workload, strides: Strides) -> list[Result]:
    """The plans of a story."""
    reference = await learn(stage, workload)
    plans = [
        Plan(workload, how, at)
        for how, step in strides.items()
        for at in range(list(Disturbance).index(how) % step, len(reference.writes), step)
    ]
    tracebacks = Tracebacks()
    logging.getLogger("dtj_operator").addHandler(tracebacks)
    slots = asyncio.Semaphore(stage.at_once)

    async def one(plan: Plan) -> Result:
        async with slots:
            return await run(stage, plan, reference, tracebacks)

    try:
        return list(await asyncio.gather(*(one(plan) for plan in plans)))
    finally:
        logging.getLogger("dtj_operator").removeHandler(tracebacks)
