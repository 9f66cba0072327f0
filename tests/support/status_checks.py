"""Checks that a job's status agrees with its objects, whatever has happened to it."""

from __future__ import annotations

import copy
from typing import Any

from dtj_operator.api.enums import ConditionType, Phase, Reason, Role
from tests.support.job_builder import JobBuilder


def check_status(world: JobBuilder) -> None:
    """Assert that the status agrees with the job, its pods and its service."""
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
    invalid = status.condition(ConditionType.INVALID)
    if invalid and invalid.holds and invalid.reason == Reason.BAD_PATTERN:
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


def owned_objects(world: JobBuilder) -> dict[str, Any]:
    """Return pods and service without what is new in each incarnation."""
    found = {name: _without_identity(pod) for name, pod in world.pods.items()}
    return found | ({"service": _without_identity(world.service)} if world.service else {})


def _without_identity(child: dict[str, Any]) -> dict[str, Any]:
    child = copy.deepcopy({name: value for name, value in child.items() if name != "status"})
    for name in ("uid", "creationTimestamp", "resourceVersion", "managedFields"):
        child["metadata"].pop(name, None)
    child["metadata"]["labels"].pop("dtj.dev/attempt", None)
    child["spec"].pop("nodeName", None)
    for container in child["spec"].get("containers", ()):
        container["env"] = [entry for entry in container.get("env", ()) if entry.get("name") != "DTJ_ATTEMPT"]
    return child
