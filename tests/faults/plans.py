"""The plans: every story, disturbed at every write of the operator in each way, against its undisturbed run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tests.faults.oracles import State, Tracebacks, Watchman, difference, end_state
from tests.faults.world import NotReached, World
from tests.support.apiserver import gateway_timeout
from tests.support.operator_process import USER_AGENT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.faults.workloads import Workload

AT_ONCE: Final = 4
"""Worlds that run at the same time: most of a run is waiting."""
QUIET_SECONDS: Final = 3.0
"""World seconds without any write after which nothing more is expected."""
SPARE_WRITES: Final = 12
"""Writes that a disturbed run may need beyond three times those of the undisturbed one."""


class Disturbance(StrEnum):
    """What happens at a write; each once per run."""

    CRASH_BEFORE = "crash before the write arrives"
    CRASH_AFTER = "crash after the commit, before the answer"
    TIMEOUT_AFTER = "504 after the commit"


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
class Outcome:
    """What came of a plan. All is well when nothing is listed."""

    plan: Plan
    struck: str
    """The write that was disturbed; empty when the run had fewer writes."""
    differences: tuple[str, ...] = ()
    double_pods: tuple[str, ...] = ()
    lost_charges: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Tracebacks, hot loops, writes in a settled state, stories that never came to their end."""

    @property
    def complaints(self) -> tuple[str, ...]:
        """All that was wrong."""
        return self.differences + self.double_pods + self.lost_charges + self.others

    def __str__(self) -> str:
        """For people."""
        return f"{self.plan} ({self.struck or 'not reached'}): " + "; ".join(self.complaints)


async def learn(workload: Workload) -> Reference:
    """Run a story undisturbed."""
    async with World() as world:
        watchman = Watchman(world)
        await world.start_operator().ready()
        world.apply(workload.job)
        await workload.drive(world)
        await _quiet(world)
        if watchman.complaints:
            raise AssertionError(f"{workload.name}, undisturbed: {'; '.join(watchman.complaints)}")
        writes = tuple(request.target for request in world.writes() if request.changed)
        return Reference(end_state(world), writes, world.status.get("restarts"))


async def run(plan: Plan, reference: Reference, tracebacks: Tracebacks) -> Outcome:
    """Run a story with one disturbance."""
    async with World() as world:
        watchman = Watchman(world)
        await world.start_operator().ready()
        struck = _arm(world, plan)
        world.apply(plan.workload.job)
        others: list[str] = []
        try:
            await plan.workload.drive(world)
            await _equal(world, reference)
            settled = len(world.writes())
            await world.pass_time(QUIET_SECONDS)
            late = [request.target for request in world.writes()[settled:]]
            if late:
                others.append(f"written in a settled state: {', '.join(late)}")
        except NotReached as problem:
            others.append(str(problem))
        others += [f"traceback in the log: {text}" for text in tracebacks.of(world)]
        others += [f"{operator.token} ended: {operator.error!r}" for operator in world.operators if operator.error]
        allowed = 3 * len(reference.writes) + SPARE_WRITES
        if len(world.writes()) > allowed:
            others.append(f"{len(world.writes())} writes, undisturbed {len(reference.writes)}: a hot loop")
        others += watchman.successes_run_again
        lost = list(watchman.charges_taken_back)
        if world.status.get("restarts") != reference.restarts:
            lost.append(f"restarts are {world.status.get('restarts')}, undisturbed {reference.restarts}")
        return Outcome(
            plan,
            struck(),
            tuple(difference(reference.state, end_state(world))),
            tuple(watchman.double_pods),
            tuple(lost),
            tuple(others),
        )


def _arm(world: World, plan: Plan) -> Callable[[], str]:
    at = len(world.writes()) + plan.write
    if plan.disturbance is Disturbance.TIMEOUT_AFTER:
        rule = world.server.faults.on_write(plan.write, gateway_timeout(), user_agent=USER_AGENT)
        happened: Callable[[], bool] = lambda: rule.hits > 0  # noqa: E731 - the same shape as below
    else:
        happened = world.crash_at_write(plan.write, after_commit=plan.disturbance is Disturbance.CRASH_AFTER)
    return lambda: world.writes()[at].target if happened() else ""


async def _equal(world: World, reference: Reference) -> None:
    with contextlib.suppress(NotReached):  # the comparison that follows says where they differ
        await world.until(lambda: end_state(world) == reference.state, "the undisturbed end state")


async def _quiet(world: World) -> None:
    """Wait until nothing has been written for a while."""
    seen = -1
    while len(world.writes()) != seen:
        seen = len(world.writes())
        await world.pass_time(QUIET_SECONDS)


async def run_all(
    workload: Workload,
    disturbances: Sequence[Disturbance] = tuple(Disturbance),
    told: Callable[[Outcome], None] = lambda _: None,
) -> list[Outcome]:
    """Every plan of a story."""
    reference = await learn(workload)
    plans = [Plan(workload, how, at) for at in range(len(reference.writes)) for how in disturbances]
    tracebacks = Tracebacks()
    logging.getLogger("dtj_operator").addHandler(tracebacks)
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(plan: Plan) -> Outcome:
        async with slots:
            outcome = await run(plan, reference, tracebacks)
            told(outcome)
            return outcome

    try:
        return list(await asyncio.gather(*(one(plan) for plan in plans)))
    finally:
        logging.getLogger("dtj_operator").removeHandler(tracebacks)
