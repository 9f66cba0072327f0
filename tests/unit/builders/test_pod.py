"""The pod and the service as they are sent to the API server."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from dtj_operator.api.enums import Role
from dtj_operator.builders.environment import variable_names
from dtj_operator.builders.pod import build_pod, overridden_fields
from dtj_operator.builders.service import build_service
from dtj_operator.builders.strategy_choice import choose_strategy
from tests.support.job_builder import UID, JobBuilder, job, template


def pod(world: JobBuilder, role: str = "worker", index: int = 0, attempt: int = 3) -> dict[str, Any]:
    return build_pod(world.job, role, index, attempt)


def main(built: dict[str, Any]) -> dict[str, Any]:
    return built["spec"]["containers"][0]


def environment(built: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry.get("value") for entry in main(built)["env"]}


def gpus(number: int, resource: str = "nvidia.com/gpu") -> dict[str, Any]:
    given = template()
    given["spec"]["containers"][0]["resources"] = {"limits": {resource: number}}
    return given


def test_names_labels_and_owner_follow_job_role_and_index():
    built = pod(job(worker=2), index=1)["metadata"]
    assert built["name"] == "train-worker-1"
    assert built["namespace"] == "team"
    assert built["labels"] == {
        "dtj.dev/job-name": "train",
        "dtj.dev/job-uid": UID,
        "dtj.dev/role": "worker",
        "dtj.dev/index": "1",
        "dtj.dev/attempt": "3",
    }
    assert built["ownerReferences"] == [
        {
            "apiVersion": "dtj.dev/v1alpha1",
            "kind": "DistributedTrainingJob",
            "name": "train",
            "uid": UID,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def test_template_labels_and_annotations_survive_and_ours_win():
    given = template()
    given["metadata"] = {"labels": {"team": "a", "dtj.dev/role": "x"}, "annotations": {"note": "b"}}
    built = pod(job(worker={"template": given}))["metadata"]
    assert built["labels"]["team"] == "a"
    assert built["labels"]["dtj.dev/role"] == "worker"
    assert built["annotations"] == {"note": "b"}
    assert overridden_fields(job(worker={"template": given}).job) == ["worker: label dtj.dev/role"]


def test_the_address_is_stable_whatever_the_template_says():
    built = pod(job(worker={"template": template(hostname="a", subdomain="b", restartPolicy="Always")}))
    assert (built["spec"]["hostname"], built["spec"]["subdomain"]) == ("train-worker-0", "train")
    assert built["spec"]["restartPolicy"] == "Never"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("OnFailure", "Never"), ("Never", "Never"), ("ExitCode", "Never"), ("Always", "Always")],
)
def test_the_pods_restart_policy_follows_the_roles(policy: str, expected: str):
    built = pod(job(chief=1, ps={"restartPolicy": policy}), role="ps")
    assert built["spec"]["restartPolicy"] == expected


def test_the_default_port_is_added_once_and_a_port_named_tf_is_left_alone():
    assert main(pod(job(worker=1)))["ports"] == [{"name": "tf", "containerPort": 2222}]
    given = template()
    given["spec"]["containers"][0]["ports"] = [{"name": "tf", "containerPort": 5}]
    assert main(pod(job(worker={"template": given})))["ports"] == [{"name": "tf", "containerPort": 5}]


def test_a_declaration_of_the_default_port_gets_the_name_that_it_lacks():
    given = template()
    udp = {"containerPort": 2222, "protocol": "UDP"}
    declared: list[dict[str, Any]] = [udp, {"containerPort": 2222, "hostPort": 7}]
    given["spec"]["containers"][0]["ports"] = declared
    named = {"name": "tf", "containerPort": 2222, "hostPort": 7}
    assert main(pod(job(worker={"template": given})))["ports"] == [udp, named]
    assert "name" not in declared[1]


def test_in_the_network_of_the_host_the_default_port_is_not_declared_a_second_time():
    given = template(hostNetwork=True)
    given["spec"]["containers"][0]["ports"] = [{"name": "grpc", "containerPort": 2222}]
    assert main(pod(job(worker={"template": given})))["ports"] == [{"name": "grpc", "containerPort": 2222}]
    assert main(pod(job(worker={"template": template(hostNetwork=True)})))["ports"][0]["name"] == "tf"


def test_unknown_fields_are_kept_and_the_template_is_not_changed():
    given = template(fieldOfTomorrow={"x": 1})
    before = copy.deepcopy(given)
    world = job(worker={"template": given})
    assert pod(world)["spec"]["fieldOfTomorrow"] == {"x": 1}
    assert given == before


def test_the_environment_says_who_the_pod_is():
    built = pod(job(worker={"replicas": 2, "template": gpus(2)}).spec(strategy={"type": "Auto"}), index=1)
    values = environment(built)
    assert {
        name: values[name] for name in list(values) if name not in {"TF_CONFIG", "DTJ_STRATEGY", "DTJ_CHECKPOINT"}
    } == {
        "DTJ_JOB": "train",
        "DTJ_UID": UID,
        "DTJ_NAMESPACE": "team",
        "DTJ_ROLE": "worker",
        "DTJ_INDEX": "1",
        "DTJ_ATTEMPT": "3",
        "DTJ_GPUS": "2",
    }
    assert json.loads(values["DTJ_STRATEGY"])["type"] == "MultiWorkerMirrored"
    assert json.loads(values["DTJ_CHECKPOINT"]) == {
        "directory": "/checkpoints",
        "persistentVolumeClaim": "",
        "everySteps": 0,
        "everySeconds": 60,
        "keep": 3,
    }


KERAS = ("KERAS_DISTRIBUTION_JOB_ADDRESSES", "KERAS_DISTRIBUTION_NUM_PROCESSES", "KERAS_DISTRIBUTION_PROCESS_ID")


def test_keras_distribution_knows_its_processes_where_the_program_builds_everything_itself():
    world = job(chief=1, worker=2, ps=1, evaluator=1).spec(strategy={"type": "None"})
    addresses = ",".join(f"train-{name}.train.team.svc:2222" for name in ("chief-0", "worker-0", "worker-1"))
    for place, (role, index) in enumerate([("chief", 0), ("worker", 0), ("worker", 1)]):
        values = environment(build_pod(world.job, role, index, 0))
        assert [values[name] for name in KERAS] == [addresses, "3", f"{place}"]
    for role in ("ps", "evaluator"):
        assert environment(build_pod(world.job, role, 0, 0)).keys().isdisjoint(KERAS)


@pytest.mark.parametrize(("size", "strategy"), [(2, "Auto"), (2, "MultiWorkerMirrored"), (1, "None")])
def test_keras_distribution_is_not_told_of_one_process_or_of_tensorflows_cluster(size: int, strategy: str):
    world = job(worker=size).spec(strategy={"type": strategy})
    assert environment(build_pod(world.job, "worker", 0, 0)).keys().isdisjoint(KERAS)


def test_what_the_template_says_to_keras_distribution_stays():
    given = template()
    given["spec"]["containers"][0]["env"] = [{"name": KERAS[0], "value": "mine:1"}]
    world = job(worker={"replicas": 2, "template": given}).spec(strategy={"type": "None"})
    values = environment(build_pod(world.job, "worker", 1, 0))
    assert [values[name] for name in KERAS] == ["mine:1", "2", "1"]
    assert overridden_fields(world.job) == []


def test_ours_win_over_the_users_variables_and_the_rest_stays():
    given = template()
    given["spec"]["containers"][0]["env"] = [
        {"name": "DTJ_JOB", "value": "mine"},
        {"name": "DTJ_RESTARTS", "value": "4"},
        {"name": "WHO", "value": "$(DTJ_ROLE)"},
    ]
    world = job(worker={"template": given})
    values = environment(pod(world))
    assert values["DTJ_JOB"] == "train"
    assert values["DTJ_RESTARTS"] == "4"
    assert list(values).index("DTJ_ROLE") < list(values).index("WHO")
    assert overridden_fields(world.job) == ["worker: env DTJ_JOB"]


def test_only_the_main_container_is_equipped():
    given = template()
    given["spec"]["containers"].insert(0, {"name": "side", "image": "s"})
    given["spec"]["initContainers"] = [{"name": "init", "image": "i"}]
    built = pod(job(worker={"replicas": 2, "template": given}).spec(checkpoint={"persistentVolumeClaim": "c"}))
    assert built["spec"]["containers"][0] == {"name": "side", "image": "s"}
    assert built["spec"]["initContainers"] == [{"name": "init", "image": "i"}]
    assert built["spec"]["containers"][1]["volumeMounts"] == [{"name": "dtj-checkpoint", "mountPath": "/checkpoints"}]


def test_the_main_container_is_the_named_one_else_tensorflow_else_the_first():
    given = {"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]}}
    first = pod(job(worker={"template": given}))
    named = pod(job(worker={"template": given}).spec(mainContainer="b"))
    assert ["env" in c for c in first["spec"]["containers"]] == [True, False]
    assert ["env" in c for c in named["spec"]["containers"]] == [False, True]


def test_the_claim_is_mounted_once():
    given = template(volumes=[{"name": "mine", "emptyDir": {}}])
    given["spec"]["containers"][0]["volumeMounts"] = [{"name": "mine", "mountPath": "/checkpoints/"}]
    world = job(worker={"template": given}).spec(checkpoint={"persistentVolumeClaim": "claim"})
    assert pod(world)["spec"]["volumes"] == [{"name": "mine", "emptyDir": {}}]
    plain = pod(job(worker=1).spec(checkpoint={"persistentVolumeClaim": "claim"}))
    assert plain["spec"]["volumes"] == [{"name": "dtj-checkpoint", "persistentVolumeClaim": {"claimName": "claim"}}]


def test_a_volume_of_the_template_keeps_its_name_and_its_place():
    given = template(volumes=[{"name": "dtj-checkpoint", "emptyDir": {}}])
    given["spec"]["containers"][0]["volumeMounts"] = [{"name": "dtj-checkpoint", "mountPath": "/scratch"}]
    built = pod(job(worker={"template": given}).spec(checkpoint={"persistentVolumeClaim": "claim"}))
    own, claim = built["spec"]["volumes"]
    assert own == {"name": "dtj-checkpoint", "emptyDir": {}}
    assert claim["persistentVolumeClaim"] == {"claimName": "claim"}
    places = {mount["name"]: mount["mountPath"] for mount in main(built)["volumeMounts"]}
    assert places == {"dtj-checkpoint": "/scratch", claim["name"]: "/checkpoints"}


def test_the_termination_message_falls_back_to_the_logs_unless_the_user_says_else():
    assert main(pod(job(worker=1)))["terminationMessagePolicy"] == "FallbackToLogsOnError"
    given = template()
    given["spec"]["containers"][0]["terminationMessagePolicy"] = "File"
    assert main(pod(job(worker={"template": given})))["terminationMessagePolicy"] == "File"


def test_one_headless_service_publishes_peers_before_they_are_ready():
    service = build_service(job(worker=9).job)
    assert service["metadata"]["name"] == "train"
    assert service["metadata"]["labels"] == {"dtj.dev/job-name": "train", "dtj.dev/job-uid": UID}
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"] == {"dtj.dev/job-uid": UID}


@pytest.mark.parametrize(
    ("world", "chosen", "reason"),
    [
        (job(worker=1), "OneDevice", "one pod with no GPU"),
        (job(chief=1), "OneDevice", "one pod with no GPU"),
        (job(worker={"template": gpus(1)}), "OneDevice", "one pod with one GPU"),
        (job(worker={"template": gpus(4)}), "Mirrored", "one pod with 4 GPUs"),
        (job(chief={"template": gpus(2, "amd.com/gpu")}), "Mirrored", "one pod with 2 GPUs"),
        (job(worker=2), "MultiWorkerMirrored", "2 worker pods"),
        (job(chief=1, worker=1), "MultiWorkerMirrored", "1 chief pod and 1 worker pod"),
        (job(chief=1, worker=2, ps=1), "ParameterServer", "1 ps pod"),
        (job(worker=1, evaluator=1), "OneDevice", "one pod with no GPU"),
        (job(worker=2).spec(strategy={"type": "None"}), "None", "set in spec.strategy.type"),
    ],
)
def test_auto_chooses_by_roles_pods_and_gpus_and_says_why(world: JobBuilder, chosen: str, reason: str):
    choice = choose_strategy(world.job.spec)
    assert (choice.type, choice.reason) == (chosen, reason)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_names_that_a_template_may_not_use_are_those_that_a_pod_gets(workers: int):
    world = job(worker=workers)
    assert variable_names(world.job, Role.WORKER) == set(environment(pod(world)))
