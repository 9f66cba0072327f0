"""The whole operator, and any job that an API server accepts: what it is made of comes from the CRD's schema alone.

`tests/unit/reconcile/test_any_job.py` asks the same of the decisions alone, with many more jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dtj_operator.kube import merge_patch
from tests.faults.fault_cluster import IN_PROCESS, World
from tests.faults.invariants import Tracebacks, Watchman, difference
from tests.faults.workloads import training_job
from tests.support import job_builder as pure
from tests.support.specs import accepted_jobs, endless
from tests.support.truth import children, truthful

if TYPE_CHECKING:
    from tests.support.apiserver import Object

# Threads of the operators before draw random numbers too, while the next jobs are made.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")

KIND: Final = "distributedtrainingjobs"
BESIDE: Final = 16
"""So many jobs at most has one operator at the same time. The first try is always one job of the simplest kind."""
SPARE_WRITES: Final = 12
"""Of one job in ten seconds in which nothing happens but retries of what the server refuses."""
SOME: Final = settings(
    max_examples=3,
    phases=(Phase.generate,),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
"""The same jobs in each run. What fails is printed, and is not made smaller: one try takes seconds."""


def lists(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(strategy, min_size=1, max_size=BESIDE)


@pytest.mark.faults
@SOME
@given(made=lists(accepted_jobs()), code=st.sampled_from([0, 1, 42, 137, 143]))
async def test_jobs_of_nonsense_are_survived_and_told_truly_and_disturb_nobody(
    tracebacks: Tracebacks, made: list[Object], code: int
):
    async with World(IN_PROCESS) as world:
        watchman = Watchman(world)
        operator = world.start_operator()
        await operator.ready()
        world.apply(training_job(worker=1))
        for number, one in enumerate(made):
            create(world, number, one["spec"])
        await truth(world, len(made))
        for number in range(len(made)):
            for pod in list(family(world, number).pods)[:1]:
                world.kubelet.exit(pod, code)
        await truth(world, len(made))
        written = len(world.writes())
        await world.pass_time(10)
        assert len(world.writes()) - written <= len(made) * SPARE_WRITES, "a hot loop"
        assert world.holds("Running"), "the job of good sense among them"
        assert world.status["restarts"]["total"] == 0
        assert (operator.error, tracebacks.of(world)) == (None, [])
        assert watchman.double_pods + watchman.charges_taken_back == []


@pytest.mark.faults
@SOME
@given(made=lists(st.tuples(accepted_jobs(), accepted_jobs())))
async def test_an_edit_that_is_taken_back_brings_the_same_children(
    tracebacks: Tracebacks, made: list[tuple[Object, Object]]
):
    began = [sensible(first) for first, _ in made]
    edited = [sensible(second) for _, second in made]
    async with World(IN_PROCESS) as world:
        operator = world.start_operator()
        await operator.ready()
        for number, spec in enumerate(began):
            create(world, number, spec)
        await truth(world, len(made))
        before = [children(family(world, number)) for number in range(len(made))]
        for specs in (stopped(began), edited, stopped(edited), began):
            for number, spec in enumerate(specs):
                replace(world, number, spec)
            await truth(world, len(made))
        assert difference(before, [children(family(world, number)) for number in range(len(made))]) == []
        assert (operator.error, tracebacks.of(world)) == (None, [])


def sensible(job: Object) -> Object:
    """The spec without an end and with pods that no server refuses: which peers of a refused one exist is chance."""
    spec = endless(job)
    roles = {role: wanted | {"template": pure.template()} for role, wanted in spec["replicaSpecs"].items()}
    return spec | {"mainContainer": "", "replicaSpecs": roles}


def stopped(specs: list[Object]) -> list[Object]:
    return [spec | {"suspend": True} for spec in specs]


def create(world: World, number: int, spec: Object) -> None:
    world.apply({"metadata": {"name": f"odd-{number}"}, "spec": spec})


def replace(world: World, number: int, spec: Object) -> None:
    """Put another spec in place of the job's."""
    old = world.server.get(KIND, world.namespace, f"odd-{number}") or {"spec": {}}
    patch = merge_patch.difference(old["spec"], spec)
    world.server.patch(KIND, world.namespace, f"odd-{number}", {"spec": patch})


async def truth(world: World, jobs: int) -> None:
    """Wait until every job has been looked at as it is now, and nothing more is done; all is true then."""
    await world.until_settled_as(
        lambda: all(looked_at(family(world, number)) for number in range(jobs)), "a look at every job as it is now"
    )
    await world.quiet()
    for number in range(jobs):
        truthful(family(world, number))


def looked_at(one: pure.World) -> bool:
    told = one.raw.get("status", {}).get("observedGeneration")
    return one.job_deleted or one.raw["spec"]["managedBy"] == "elsewhere" or told == one.raw["metadata"]["generation"]


def family(world: World, number: int) -> pure.World:
    """A job and its children as they are stored, for the oracles."""
    name = f"odd-{number}"
    job = world.server.get(KIND, world.namespace, name)
    pods = {
        pod["metadata"]["name"]: pod
        for pod in world.pods()
        if (pod["metadata"].get("labels") or {}).get("dtj.dev/job-name") == name
    }
    service = world.server.get("services", world.namespace, name)
    return pure.World(raw=job or {"spec": {"managedBy": ""}}, pods=pods, service=service, job_deleted=job is None)
