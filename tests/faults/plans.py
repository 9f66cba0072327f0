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
from tests.support.apiserver import Answer, Cut, Meanwhile, gateway_timeout, too_many_requests
from tests.support.operator_process import USER_AGENT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.faults.workloads import Workload
    from tests.support.apiserver.faults import Outcome

AT_ONCE: Final = 4
"""Worlds that run at the same time: most of a run is waiting."""
QUIET_SECONDS: Final = 2.5
"""World seconds without any write after which nothing more is expected."""
QUIET_LIMIT: Final = 8
"""So many times that long a world may write on after its end state: the last events, retries of a refusal."""
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


EVERY_WRITE: Final = (Disturbance.CRASH_BEFORE, Disturbance.CRASH_AFTER, Disturbance.TIMEOUT_AFTER)
"""What is tried at every single write; the others are tried at every fourth."""
OTHERS: Final = tuple(how for how in Disturbance if how not in EVERY_WRITE)


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


async def run(plan: Plan, reference: Reference, tracebacks: Tracebacks) -> Result:
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
            await _quiet(world)
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
    }
    at = len(world.writes()) + plan.write
    rule = world.server.faults.on_write(plan.write, outcomes[plan.disturbance], user_agent=USER_AGENT)
    return lambda: world.writes()[at].target if rule.hits else ""


async def _equal(world: World, reference: Reference) -> None:
    with contextlib.suppress(NotReached):  # the comparison that follows says where they differ
        await world.until_settled_as(lambda: end_state(world) == reference.state, "the undisturbed end state")


async def _quiet(world: World) -> None:
    """Wait until nothing has been written for a while; raises NotReached if that never comes."""
    for _ in range(QUIET_LIMIT):
        seen = len(world.writes())
        await world.pass_time(QUIET_SECONDS)
        if len(world.writes()) == seen:
            return
    raise NotReached(f"a time without writes was not reached; {world.describe()}")


async def run_all(
    workload: Workload, disturbances: Sequence[Disturbance], told: Callable[[Result], None] = lambda _: None
) -> list[Result]:
    """The plans of a story with these disturbances; `told` hears each result at once."""
    reference = await learn(workload)
    plans = [
        Plan(workload, how, at)
        for how in disturbances
        for at in range(0, len(reference.writes), 1 if how in EVERY_WRITE else 4)
    ]
    tracebacks = Tracebacks()
    logging.getLogger("dtj_operator").addHandler(tracebacks)
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(plan: Plan) -> Result:
        async with slots:
            result = await run(plan, reference, tracebacks)
            told(result)
            return result

    try:
        return list(await asyncio.gather(*(one(plan) for plan in plans)))
    finally:
        logging.getLogger("dtj_operator").removeHandler(tracebacks)
