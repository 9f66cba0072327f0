"""Volcano jobs with the plugin `tensorflow` become jobs that do the same, and every difference is told."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dtj.convert import Conversion, ConversionError, convert
from dtj.convert.volcano import convert_volcano_job, is_volcano_job
from tests.support.foreign_jobs import TFJOBS, VOLCANO_JOBS, task, volcano


def says(conversion: Conversion, words: str) -> bool:
    return any(words in sentence for sentence in conversion.notes)


def with_port(**port: Any) -> dict[str, Any]:
    given = task("worker")
    given["template"]["spec"]["containers"][0]["ports"] = [port]
    return given


def main(conversion: Conversion) -> dict[str, Any]:
    found: dict[str, Any] = conversion.spec["replicaSpecs"]["worker"]["template"]["spec"]["containers"][0]
    return found


def test_tasks_are_roles_by_the_plugins_arguments():
    given = volcano(
        [task("server", 2), task("worker", 3), task("chief")], "--ps=server", "--port=3000",
        queue="research", minAvailable=6, maxRetry=5,
    )  # fmt: skip
    before = copy.deepcopy(given)
    conversion = convert_volcano_job(given)
    assert given == before
    roles = conversion.spec["replicaSpecs"]
    assert {role: one["replicas"] for role, one in roles.items()} == {"ps": 2, "worker": 3, "chief": 1}
    assert main(conversion)["ports"] == [{"name": "tf", "containerPort": 3000}]
    assert conversion.spec["failurePolicy"] == {"maxRestarts": 5}
    assert conversion.spec["strategy"] == {"type": "None"}
    for words in (
        "spec.queue (research) is left out",
        "spec.minAvailable (6) is left out",
        "has none called tensorflow: the first, main, trains",
        "spec.tasks[0].name (server) becomes ps",
    ):
        assert says(conversion, words), words


def test_a_port_with_the_plugins_number_gets_our_name():
    assert main(convert_volcano_job(volcano([with_port(containerPort=3000)], "--port=3000")))["ports"] == [
        {"containerPort": 3000, "name": "tf"}
    ]
    assert main(convert_volcano_job(volcano([with_port(name="grpc", containerPort=2222)])))["ports"] == [
        {"name": "grpc", "containerPort": 2222}
    ]
    assert main(convert_volcano_job(volcano([with_port(containerPort=8080)])))["ports"] == [{"containerPort": 8080}]
    conversion = convert_volcano_job(volcano([with_port(name="grpc", containerPort=3000)], "--port=3000"))
    assert main(conversion)["ports"] == [{"name": "tf", "containerPort": 3000}]
    assert says(conversion, "ports[0].name (grpc) becomes tf")


def test_volumes_of_the_job_are_mounted_in_every_container_as_volcano_does():
    given = volcano(
        [task("worker")],
        volumes=[
            {"mountPath": "/data", "volumeClaimName": "data"},
            {"mountPath": "/cache", "volumeClaimName": "data"},
            {"mountPath": "/out", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}},
        ],
    )
    pod = given["spec"]["tasks"][0]["template"]["spec"]
    pod["volumes"] = [{"name": "volume-0", "emptyDir": {}}]
    pod["containers"].append(
        {"name": "second", "image": "b", "volumeMounts": [{"name": "volume-0", "mountPath": "/tmp"}]}
    )
    conversion = convert_volcano_job(given)
    converted = conversion.spec["replicaSpecs"]["worker"]["template"]["spec"]
    assert converted["volumes"] == [
        {"name": "volume-0", "emptyDir": {}},
        {"name": "volume-1", "persistentVolumeClaim": {"claimName": "data"}},
    ]
    mounts = [{"name": "volume-1", "mountPath": "/data"}, {"name": "volume-1", "mountPath": "/cache"}]
    assert converted["containers"][0]["volumeMounts"] == mounts
    assert converted["containers"][1]["volumeMounts"] == [{"name": "volume-0", "mountPath": "/tmp"}, *mounts]
    assert says(conversion, "spec.volumes[2] (/out) is left out: create a PersistentVolumeClaim")
    assert says(conversion, "only the container main gets TF_CONFIG")


@pytest.mark.parametrize(
    ("policies", "success"),
    [
        ([{"event": "TaskCompleted", "action": "CompleteJob"}], None),
        ([{"event": "PodFailed", "action": "RestartJob"}], {"type": "AllWorkers"}),
        ([], {"type": "AllWorkers"}),
    ],
)
def test_a_job_succeeds_with_its_chief_if_the_chiefs_policy_says_so(policies: list[Any], success: Any):
    conversion = convert_volcano_job(volcano([task("worker", 2), task("chief", policies=policies)]))
    assert conversion.spec.get("successPolicy") == success
    assert says(conversion, "The job succeeds")


@pytest.mark.parametrize(
    ("policy", "worker", "ps"),
    [("Always", "OnFailure", "Always"), ("OnFailure", "OnFailure", "OnFailure"), ("Never", "Never", "Never")],
)
def test_the_restart_policy_of_the_pods_is_that_of_the_role(policy: str, worker: str, ps: str):
    tasks = [task("worker"), task("ps")]
    for one in tasks:
        one["template"]["spec"]["restartPolicy"] = policy
    roles = convert_volcano_job(volcano(tasks)).spec["replicaSpecs"]
    assert (roles["worker"]["restartPolicy"], roles["ps"]["restartPolicy"]) == (worker, ps)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (
            volcano([task("worker"), task("data")]),
            "is data, and the plugin tensorflow knows chief, worker, ps or evaluator",
        ),
        (volcano([task("worker"), task("worker", 2)]), r"spec.tasks\[1\].name is worker, a second worker: keep one"),
        (volcano([task("ps")]), "spec.tasks has none that trains: add a task worker or chief"),
        (volcano([task("chief", 2)]), "there is one chief"),
        (volcano([task("worker")], volumes=[{"volumeClaimName": "a"}]), "mountPath is missing"),
        (
            volcano([task("worker")]) | {"apiVersion": "batch.volcano.sh/v1"},
            "rewrite the job for batch.volcano.sh/v1alpha1",
        ),
        (volcano([with_port(name="tf", containerPort=1)], "--port=3000"), "rename it"),
    ],
)
def test_what_cannot_be_converted_says_what_to_do(document: dict[str, Any], words: str):
    with pytest.raises(ConversionError, match=words):
        convert_volcano_job(document)


def test_jobs_are_told_apart():
    assert convert(TFJOBS["workers"]) is not None
    assert convert(VOLCANO_JOBS["workers"]) is not None
    others: list[Any] = [{"pytorch": []}, {}, None, ["tensorflow"], "tensorflow"]
    for plugins in others:
        assert not is_volcano_job(volcano([]) | {"spec": {"plugins": plugins}})
    assert not is_volcano_job(volcano([]) | {"spec": ["plugins"]})
    assert convert({"apiVersion": "v1", "kind": "Service"}) is None
    assert convert({"apiVersion": "batch/v1", "kind": "Job", "spec": {"plugins": {"tensorflow": []}}}) is None
