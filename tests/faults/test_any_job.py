"""The whole operator with random jobs that an API server accepts, generated from the CRD's schema alone.

`tests/unit/reconcile/test_any_job.py` asks the same of the decisions alone, with many more jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dtj_operator.kube import merge_patch
from tests.faults.fault_cluster import IN_PROCESS, FaultCluster
from tests.faults.invariant_monitor import InvariantMonitor
from tests.faults.invariants import Tracebacks, difference
from tests.faults.workloads import training_job
from tests.support import job_builder
from tests.support.specs import accepted_jobs, endless
from tests.support.status_checks import check_status, owned_objects

if TYPE_CHECKING:
    from tests.support.apiserver import Object

# Threads of the operators before draw random numbers too, while the next jobs are made.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")

KIND: Final = "distributedtrainingjobs"
BESIDE: Final = 16
"""The most jobs of one operator at the same time. The first example is always one job of the simplest kind."""
SPARE_WRITES: Final = 12
"""Writes of one job in ten seconds in which nothing happens but retries of refused requests."""
SOME: Final = settings(
    max_examples=3,
    phases=(Phase.generate,),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
"""The same jobs in each run. Failing examples are printed, but not shrunk: one example takes seconds."""


def lists(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(strategy, min_size=1, max_size=BESIDE)


@pytest.mark.faults
@SOME
@given(made=lists(accepted_jobs()), code=st.sampled_from([0, 1, 42, 137, 143]))
async def test_jobs_of_nonsense_are_survived_and_told_truly_and_disturb_no_other(
    tracebacks: Tracebacks, made: list[Object], code: int
):
    async with FaultCluster(IN_PROCESS) as cluster:
        monitor = InvariantMonitor(cluster)
        operator = cluster.start_operator()
        await operator.ready()
        cluster.apply(training_job(worker=1))
        for number, one in enumerate(made):
            create(cluster, number, one["spec"])
        await wait_and_check(cluster, len(made))
        for number in range(len(made)):
            for pod in list(stored_job(cluster, number).pods)[:1]:
                cluster.kubelet.exit(pod, code)
        await wait_and_check(cluster, len(made))
        written = len(cluster.writes())
        await cluster.pass_time(10)
        assert len(cluster.writes()) - written <= len(made) * SPARE_WRITES, "a hot loop"
        assert cluster.holds("Running"), "the job of good sense among them"
        assert cluster.status["restarts"]["total"] == 0
        assert (operator.error, tracebacks.of(cluster)) == (None, [])
        assert monitor.double_pods + monitor.decreased_counts == []


@pytest.mark.faults
@SOME
@given(made=lists(st.tuples(accepted_jobs(), accepted_jobs())))
async def test_an_edit_that_is_taken_back_brings_the_same_children(
    tracebacks: Tracebacks, made: list[tuple[Object, Object]]
):
    began = [without_limits(first) for first, _ in made]
    edited = [without_limits(second) for _, second in made]
    async with FaultCluster(IN_PROCESS) as cluster:
        operator = cluster.start_operator()
        await operator.ready()
        for number, spec in enumerate(began):
            create(cluster, number, spec)
        await wait_and_check(cluster, len(made))
        before = [owned_objects(stored_job(cluster, number)) for number in range(len(made))]
        for specs in (stopped(began), edited, stopped(edited), began):
            for number, spec in enumerate(specs):
                replace(cluster, number, spec)
            await wait_and_check(cluster, len(made))
        assert difference(before, [owned_objects(stored_job(cluster, number)) for number in range(len(made))]) == []
        assert (operator.error, tracebacks.of(cluster)) == (None, [])


def without_limits(job: Object) -> Object:
    """Return the spec without deadlines and with pods that no server refuses."""
    spec = endless(job)
    roles = {role: wanted | {"template": job_builder.template()} for role, wanted in spec["replicaSpecs"].items()}
    return spec | {"mainContainer": "", "replicaSpecs": roles}


def stopped(specs: list[Object]) -> list[Object]:
    return [spec | {"suspend": True} for spec in specs]


def create(cluster: FaultCluster, number: int, spec: Object) -> None:
    cluster.apply({"metadata": {"name": f"odd-{number}"}, "spec": spec})


def replace(cluster: FaultCluster, number: int, spec: Object) -> None:
    """Replace the job's spec."""
    old = cluster.server.get(KIND, cluster.namespace, f"odd-{number}") or {"spec": {}}
    patch = merge_patch.create_merge_patch(old["spec"], spec)
    cluster.server.patch(KIND, cluster.namespace, f"odd-{number}", {"spec": patch})


async def wait_and_check(cluster: FaultCluster, jobs: int) -> None:
    """Wait until every job is reconciled as it is now and nothing more is written, then check every status."""
    await cluster.until_settled_as(
        lambda: all(observed(stored_job(cluster, number)) for number in range(jobs)), "a look at every job as it is now"
    )
    await cluster.quiet()
    for number in range(jobs):
        check_status(stored_job(cluster, number))


def observed(one: job_builder.JobBuilder) -> bool:
    told = one.raw.get("status", {}).get("observedGeneration")
    return one.job_deleted or one.raw["spec"]["managedBy"] == "elsewhere" or told == one.raw["metadata"]["generation"]


def stored_job(cluster: FaultCluster, number: int) -> job_builder.JobBuilder:
    """Return a job and the objects it owns as they are stored, for `check_status`."""
    name = f"odd-{number}"
    job = cluster.server.get(KIND, cluster.namespace, name)
    pods = {
        pod["metadata"]["name"]: pod
        for pod in cluster.pods()
        if (pod["metadata"].get("labels") or {}).get("dtj.dev/job-name") == name
    }
    service = cluster.server.get("services", cluster.namespace, name)
    return job_builder.JobBuilder(
        raw=job or {"spec": {"managedBy": ""}}, pods=pods, service=service, job_deleted=job is None
    )
