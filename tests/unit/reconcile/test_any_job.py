"""What holds for every job that the API server accepts, sensible or not.

The jobs are made from the schema of the CRD, so that a new field is tried from its first day on.
"""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.support.job_builder import JobBuilder, failed, ready
from tests.support.specs import accepted_jobs, endless
from tests.support.status_checks import check_status, owned_objects

BOUNDED = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


@BOUNDED
@given(raw=accepted_jobs(), code=st.sampled_from([0, 1, 42, 137, 143]))
def test_a_job_of_nonsense_is_survived_and_its_status_stays_true(raw: dict[str, Any], code: int):
    world = JobBuilder(raw)
    check_status(world.reconcile())
    check_status(world.each(ready()).reconcile())
    for pod in list(world.pods.values())[:1]:
        labels = pod["metadata"]["labels"]
        world.pod(labels["dtj.dev/role"], int(labels["dtj.dev/index"]), failed(code))
    check_status(world.reconcile())
    check_status(world.later(400).reconcile().reap().reconcile())


@BOUNDED
@given(first=accepted_jobs(), second=accepted_jobs())
def test_a_spec_that_was_edited_while_suspended_and_is_put_back_brings_the_same_children(
    first: dict[str, Any], second: dict[str, Any]
):
    began, edited = endless(first), endless(second)
    world = JobBuilder(first)
    with_first = owned_objects(put(world, began))
    put(world, began | {"suspend": True})
    put(world, edited)
    put(world, edited | {"suspend": True})
    assert owned_objects(put(world, began)) == with_first


@BOUNDED
@given(raw=accepted_jobs(), size=st.integers(0, 4))
def test_a_size_that_was_changed_while_the_job_runs_and_is_put_back_brings_the_same_children(
    raw: dict[str, Any], size: int
):
    spec = endless(raw)
    assume("worker" in spec["replicaSpecs"])
    world = JobBuilder(raw)
    before = owned_objects(put(world, spec))
    other = copy.deepcopy(spec)
    other["replicaSpecs"]["worker"]["replicas"] = size
    put(world, other)
    assert owned_objects(put(world, spec)) == before


def put(world: JobBuilder, spec: dict[str, Any]) -> JobBuilder:
    """Replace the spec; kubelets follow."""
    world.raw["spec"] = copy.deepcopy(spec)
    world.raw["metadata"]["generation"] += 1
    return world.reconcile().reap().reconcile().each(ready()).reconcile()
