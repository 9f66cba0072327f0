"""What holds for every job that the API server accepts, sensible or not.

The jobs are made from the schema of the CRD, so that a new field is tried from its first day on.
"""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dtj_operator.api.names import ConditionType, Phase, Role
from tests.support.specs import accepted_jobs
from tests.support.world import World, failed, ready

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
    world = World(raw)
    truthful(world.settle())
    truthful(world.each(ready()).settle())
    for pod in list(world.pods.values())[:1]:
        labels = pod["metadata"]["labels"]
        world.pod(labels["dtj.dev/role"], int(labels["dtj.dev/index"]), failed(code))
    truthful(world.settle())
    truthful(world.later(400).settle().reap().settle())


def truthful(world: World) -> None:
    """What status says is so."""
    if world.raw["spec"]["managedBy"] == "elsewhere":
        assert "status" not in world.raw
        assert not world.pods
        return
    if world.job_deleted:
        return
    status, spec = world.status, world.job.spec
    true = {condition.type for condition in status.conditions if condition.holds}
    if world.job.problem:
        assert ConditionType.INVALID in true
        assert "correct the spec" in status.message
        assert not world.pods
        return
    assert status.observed_generation == world.raw["metadata"]["generation"]
    assert status.message or status.phase is Phase.PENDING
    assert len(true & {ConditionType.SUCCEEDED, ConditionType.FAILED, ConditionType.SUSPENDED}) <= 1
    if ConditionType.INVALID in true:
        assert not world.pods
    for role, wanted in spec.replica_specs.items():
        pods = [pod for pod in world.pods.values() if pod["metadata"]["labels"]["dtj.dev/role"] == role]
        counts = status.replica_statuses[Role(role)]
        assert (counts.desired, counts.created) == (wanted.replicas, len(pods))
        assert counts.ready == sum(_is_ready(pod) for pod in pods)
    if ConditionType.RUNNING in true:
        assert all(
            _is_ready(pod) or pod["status"]["phase"] == "Succeeded"
            for pod in world.pods.values()
            if pod["metadata"]["labels"]["dtj.dev/role"] != "evaluator"
        )


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or []
    return not pod["metadata"].get("deletionTimestamp") and any(
        (one["type"], one["status"]) == ("Ready", "True") for one in conditions
    )


@BOUNDED
@given(first=accepted_jobs(), second=accepted_jobs())
def test_a_spec_that_was_edited_while_suspended_and_is_put_back_brings_the_same_children(
    first: dict[str, Any], second: dict[str, Any]
):
    began, edited = endless(first), endless(second)
    world = World(first)
    with_first = children(put(world, began))
    put(world, began | {"suspend": True})
    put(world, edited)
    put(world, edited | {"suspend": True})
    assert children(put(world, began)) == with_first


@BOUNDED
@given(raw=accepted_jobs(), size=st.integers(0, 4))
def test_a_size_that_was_changed_while_the_job_runs_and_is_put_back_brings_the_same_children(
    raw: dict[str, Any], size: int
):
    spec = endless(raw)
    assume("worker" in spec["replicaSpecs"])
    world = World(raw)
    before = children(put(world, spec))
    other = copy.deepcopy(spec)
    other["replicaSpecs"]["worker"]["replicas"] = size
    put(world, other)
    assert children(put(world, spec)) == before


def endless(raw: dict[str, Any]) -> dict[str, Any]:
    """The spec without what ends the job by time, or has it looked after by others."""
    deadlines = {"activeDeadlineSeconds", "startDeadlineSeconds"}
    spec = {name: value for name, value in raw["spec"].items() if name not in deadlines}
    return spec | {"managedBy": ""}


def put(world: World, spec: dict[str, Any]) -> World:
    """Replace the spec; kubelets follow."""
    world.raw["spec"] = copy.deepcopy(spec)
    world.raw["metadata"]["generation"] += 1
    return world.settle().reap().settle().each(ready()).settle()


def children(world: World) -> dict[str, Any]:
    """Pods and service without what is new in each incarnation."""
    found = {name: _lasting(pod) for name, pod in world.pods.items()}
    return found | ({"service": _lasting(world.service)} if world.service else {})


def _lasting(child: dict[str, Any]) -> dict[str, Any]:
    child = copy.deepcopy({name: value for name, value in child.items() if name != "status"})
    for name in ("uid", "creationTimestamp"):
        del child["metadata"][name]
    child["metadata"]["labels"].pop("dtj.dev/attempt", None)
    child["spec"].pop("nodeName", None)
    for container in child["spec"].get("containers", ()):
        container["env"] = [entry for entry in container.get("env", ()) if entry.get("name") != "DTJ_ATTEMPT"]
    return child
