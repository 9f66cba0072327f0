"""TFJobs become jobs that do the same, and every difference is told."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from dtj.convert import Conversion, ConversionError
from dtj.convert.replicas import RESTART_NOTES
from dtj.convert.tfjob import convert_tfjob
from dtj_operator.reconcile.failures.exit_codes import ExitVerdict, exit_verdict
from tests.support.foreign_jobs import (
    MOUNTS,
    PORTS,
    PROBE,
    SIDECAR,
    TFJOBS,
    VOLUMES,
    exported,
    replica,
    tfjob,
    with_sidecar,
)


def says(conversion: Conversion, *words: str) -> bool:
    """Whether one sentence has all the words."""
    return any(all(word in sentence for word in words) for sentence in conversion.notes)


def pod(conversion: Conversion, role: str = "worker") -> dict[str, Any]:
    found: dict[str, Any] = conversion.spec["replicaSpecs"][role]["template"]["spec"]
    return found


def test_workers_alone_keep_their_names_counts_and_templates():
    given = tfjob({"Worker": replica(3, "OnFailure")})
    before = copy.deepcopy(given)
    conversion = convert_tfjob(given)
    assert given == before
    assert conversion.manifest["metadata"] == {"name": "mnist", "namespace": "team", "labels": {"a": "b"}}
    worker = conversion.spec["replicaSpecs"]["worker"]
    assert (worker["replicas"], worker["restartPolicy"]) == (3, "OnFailure")
    assert worker["template"] == given["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    assert conversion.spec["cleanPodPolicy"] == "None"
    assert "strategy" not in conversion.spec


@pytest.mark.parametrize("name", TFJOBS)
def test_no_conversion_changes_what_it_is_given(name: str):
    given = copy.deepcopy(TFJOBS[name])
    convert_tfjob(given)
    assert given == TFJOBS[name]


def test_every_role_of_a_tfjob_has_one_here_in_any_case_of_letters():
    given = {"MASTER": replica(), "worker": replica(2), "PS": replica(2, "Always"), "Evaluator": replica()}
    conversion = convert_tfjob(tfjob(given))
    roles = conversion.spec["replicaSpecs"]
    assert {role: one["replicas"] for role, one in roles.items()} == {"chief": 1, "worker": 2, "ps": 2, "evaluator": 1}
    assert says(conversion, "tfReplicaSpecs.MASTER is the role chief")
    assert says(conversion, "The evaluator is not in the cluster of TF_CONFIG")


@pytest.mark.parametrize("roles", [{"Chief", "Worker", "PS"}, {"Worker", "PS"}])
def test_with_ps_the_program_builds_its_own_strategy(roles: set[str]):
    """Under ParameterServer a worker that ends with 0 is started again; a TFJob's is done."""
    conversion = convert_tfjob(tfjob({role: replica() for role in roles}))
    assert conversion.spec["strategy"] == {"type": "None"}
    assert says(conversion, "spec.strategy.type is None")


@pytest.mark.parametrize(
    ("policy", "becomes"),
    [
        ("Always", ["OnFailure", "OnFailure", "Always", "Always"]),
        ("OnFailure", ["OnFailure"] * 4),
        ("Never", ["Never"] * 4),
        ("ExitCode", ["ExitCode"] * 4),
        (None, ["Never"] * 4),
    ],
)
def test_restart_policies_stay_but_always_where_a_pod_ends(policy: str | None, becomes: list[str]):
    kinds = ("Chief", "Worker", "PS", "Evaluator")
    conversion = convert_tfjob(tfjob({kind: replica(1, policy) for kind in kinds}))
    roles = conversion.spec["replicaSpecs"]
    assert [roles[kind.lower()]["restartPolicy"] for kind in kinds] == becomes
    for kind, new in zip(kinds, becomes, strict=True):
        assert says(conversion, f"spec.tfReplicaSpecs.{kind}.restartPolicy {new}: ")
        assert says(conversion, f"{kind}.restartPolicy Always becomes OnFailure") is (
            policy == "Always" and new != policy
        )
    assert says(conversion, "Evaluator.restartPolicy", "maxRestarts") is False


def test_the_exit_codes_that_differ_are_those_that_are_told():
    """training-operator restarts codes from 128 on."""
    differ = [code for code in range(1, 256) if (exit_verdict(code) is ExitVerdict.RETRYABLE) != (code >= 128)]
    assert sorted(map(int, re.findall(r"\d+", RESTART_NOTES["ExitCode"]))) == differ


@pytest.mark.parametrize("policy", ["All", "Running", "None", None])
def test_clean_pod_policy_stays_and_its_default_is_told(policy: str | None):
    conversion = convert_tfjob(tfjob({"Worker": replica()}, runPolicy={"cleanPodPolicy": policy}))
    assert conversion.spec["cleanPodPolicy"] == (policy or "None")
    assert says(conversion, "cleanPodPolicy None leaves ps and unfinished workers running") is (
        policy in {"None", None}
    )


def test_policies_move_below_spec_and_each_difference_is_told():
    policy = {
        "cleanPodPolicy": "All",
        "backoffLimit": 5,
        "activeDeadlineSeconds": 60,
        "ttlSecondsAfterFinished": 0,
        "suspend": True,
        "schedulingPolicy": {
            "queue": "research",
            "minAvailable": 2,
            "minResources": {"cpu": 3},
            "priorityClass": "high",
        },
        "unheardOf": 1,
    }
    conversion = convert_tfjob(tfjob({"Worker": replica(2, "ExitCode")}, runPolicy=policy, successPolicy="AllWorkers"))
    spec = {name: value for name, value in conversion.spec.items() if name != "replicaSpecs"}
    assert spec == {
        "cleanPodPolicy": "All",
        "failurePolicy": {"maxRestarts": 5},
        "activeDeadlineSeconds": 60,
        "ttlSecondsAfterFinished": 0,
        "suspend": True,
        "successPolicy": {"type": "AllWorkers"},
    }
    for words in (
        "schedulingPolicy.queue (research) is left out",
        "schedulingPolicy.minAvailable (2) is left out",
        "schedulingPolicy.minResources is left out",
        "set template.spec.priorityClassName",
        "spec.runPolicy.unheardOf has no counterpart",
        "backoffLimit is failurePolicy.maxRestarts",
        "activeDeadlineSeconds is kept to the second",
    ):
        assert says(conversion, words), words


@pytest.mark.parametrize("suspend", [True, False, None])
def test_suspend_stays(suspend):
    conversion = convert_tfjob(tfjob({"Worker": replica()}, runPolicy={"suspend": suspend}))
    assert conversion.spec.get("suspend") is suspend


@pytest.mark.parametrize(("policy", "told"), [("OnFailure", True), ("Never", False)])
def test_without_a_limit_of_restarts_the_default_is_told(policy, told):
    conversion = convert_tfjob(tfjob({"Worker": replica(2, policy)}))
    assert "failurePolicy" not in conversion.spec
    assert says(conversion, "backoffLimit is not set: failurePolicy.maxRestarts is 3") is told


def test_policies_of_older_tfjobs_stand_beside_the_replicas():
    conversion = convert_tfjob(tfjob({"Worker": replica()}, cleanPodPolicy="Running", backoffLimit=0))
    assert conversion.spec["cleanPodPolicy"] == "Running"
    assert conversion.spec["failurePolicy"] == {"maxRestarts": 0}
    assert says(conversion, "spec.backoffLimit is read as spec.runPolicy.backoffLimit")


@pytest.mark.parametrize(
    ("manager", "kept", "words"),
    [
        ("kubeflow.org/training-operator", None, "is left out: this operator manages the job"),
        ("kueue.x-k8s.io/multikueue", "kueue.x-k8s.io/multikueue", "is kept: this operator ignores the job"),
    ],
)
def test_a_job_of_another_manager_stays_its(manager: str, kept: str | None, words: str):
    conversion = convert_tfjob(tfjob({"Worker": replica()}, runPolicy={"managedBy": manager}))
    assert conversion.spec.get("managedBy") == kept
    assert says(conversion, f"managedBy ({manager})", words)


def test_a_job_in_a_queue_of_kueue_is_told_that_nothing_starts_it():
    conversion = convert_tfjob(TFJOBS["queued by Kueue"])
    assert says(conversion, "kueue.x-k8s.io/queue-name has no effect", "suspend: true waits")


def test_all_workers_succeed_only_where_there_is_no_chief():
    assert "successPolicy" not in convert_tfjob(TFJOBS["all workers, with a chief"]).spec
    assert says(convert_tfjob(TFJOBS["all workers, with a chief"]), "successPolicy (AllWorkers) is left out")


def test_volumes_gpus_and_placement_stay_as_they_are():
    given = replica(pod=VOLUMES, volumeMounts=MOUNTS, resources={"limits": {"nvidia.com/gpu": 2}})
    converted = pod(convert_tfjob(tfjob({"Worker": given})))
    assert converted == given["template"]["spec"]


def test_port_and_tf_config_of_the_template_are_ours():
    env = [{"name": "TF_CONFIG", "value": "{}"}, {"name": "A", "value": "1"}]
    given = replica(ports=PORTS, env=env, livenessProbe=PROBE)
    given["template"]["spec"] |= {"restartPolicy": "OnFailure", "hostname": "me"}
    conversion = convert_tfjob(tfjob({"Worker": given}))
    converted = pod(conversion)
    (main,) = converted["containers"]
    assert [port["name"] for port in main["ports"]] == ["tf", "http"]
    assert main["livenessProbe"] == {"tcpSocket": {"port": "tf"}, "periodSeconds": 7}
    assert main["env"] == [{"name": "A", "value": "1"}]
    assert converted.keys() == {"containers"}
    path = "spec.tfReplicaSpecs.Worker.template.spec"
    for words in (
        f"{path}.containers[0].env[0] (TF_CONFIG) is left out: the operator sets it",
        f"{path}.containers[0].ports[0].name (tfjob-port) becomes tf, in probes too: change a Service that names it",
        f"{path}.restartPolicy (OnFailure) is left out",
        f"{path}.hostname (me) is left out",
    ):
        assert says(conversion, words), words


@pytest.mark.parametrize("port", [
    {"name": "grpc", "containerPort": 2222}, {"containerPort": 2222}, {"name": "tf", "containerPort": 2222},
])  # fmt: skip
def test_a_port_of_another_name_keeps_it(port):
    """The operator declares the default port of TensorFlow itself."""
    conversion = convert_tfjob(tfjob({"Worker": replica(ports=[port])}))
    assert pod(conversion)["containers"][0]["ports"] == [port]
    assert not says(conversion, "becomes tf")


def test_a_second_container_stays_as_it_is():
    assert pod(convert_tfjob(with_sidecar()))["containers"][1] == SIDECAR


def test_a_selector_of_labels_that_no_pod_has_any_more_is_told():
    conversion = convert_tfjob(with_sidecar())
    assert says(conversion, "matchLabels.training.kubeflow.org/job-name names a label")


def test_another_main_container_is_told():
    conversion = convert_tfjob(tfjob({"Worker": replica(name="train")}))
    assert says(conversion, "containers has none called tensorflow: the first, train, trains")


def test_what_an_api_server_adds_to_an_object_is_left_out():
    conversion = convert_tfjob(exported())
    assert conversion.manifest["metadata"] == {
        "name": "mnist", "namespace": "team", "labels": {"a": "b"}, "annotations": {"team.example.org/owner": "vision"},
    }  # fmt: skip
    assert conversion.spec["replicaSpecs"]["worker"]["template"]["metadata"] == {
        "labels": {"app": "mnist-pods"}, "annotations": {"sidecar.istio.io/inject": "false"},
    }  # fmt: skip
    for words in ("metadata.uid (6f1c9d3e)", "metadata.managedFields", "status is left out", "template.metadata.name"):
        assert says(conversion, words), words


@pytest.mark.parametrize(("kind", "status", "told"), [
    ("Succeeded", "True", True), ("Failed", "True", True), ("Failed", "False", False), ("Running", "True", False),
])  # fmt: skip
def test_a_job_that_is_done_would_run_again(kind, status, told):
    given = tfjob({"Worker": replica()}) | {"status": {"conditions": [{"type": kind, "status": status}]}}
    assert says(convert_tfjob(given), "the new one would run it again") is told


def test_what_nobody_knows_is_named_wherever_it_stands():
    given = tfjob({"Worker": replica() | {"unheardOf": 1}}) | {"stray": {}}
    given["spec"]["tfReplicaSpecs"]["Worker"]["template"]["stray"] = 1
    conversion = convert_tfjob(given)
    for words in ("stray has", "spec.tfReplicaSpecs.Worker.unheardOf", "spec.tfReplicaSpecs.Worker.template.stray"):
        assert says(conversion, words), words


def named(name: Any) -> dict[str, Any]:
    return tfjob({"Worker": replica()}) | {"metadata": {"name": name}}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (named("a" * 41), "metadata.name has 41 characters, and that of a DistributedTrainingJob has at most 40"),
        (named("Mnist"), "use a-z, 0-9 and '-'"),
        (named(""), "metadata.name is missing: give the job one"),
        (named(7), r"metadata.name is an integer \(7\): make it a string"),
        (
            tfjob({"Worker": replica()}) | {"apiVersion": "kubeflow.org/v1beta2"},
            "TFJob mnist: apiVersion is kubeflow.org/v1beta2: rewrite the job for kubeflow.org/v1 first",
        ),
        (tfjob({"Worker": replica()}) | {"apiVersion": None}, "apiVersion is missing"),
        (
            tfjob({"Trainer": replica()}),
            "spec.tfReplicaSpecs.Trainer is no role: make it Chief, Worker, PS or Evaluator",
        ),
        (tfjob({"Chief": replica(), "Master": replica()}), "Master is a second chief: keep one"),
        (tfjob({"Worker": replica(), "worker": replica()}), "worker is a second worker: keep one"),
        (tfjob({"Chief": replica(2)}), "Chief.replicas is 2, and there is one chief: make the others workers"),
        (tfjob({"Worker": replica(-1)}), "Worker.replicas is -1: use a number from 0 to 2,000"),
        (tfjob({"PS": replica()}), "add spec.tfReplicaSpecs.Worker or spec.tfReplicaSpecs.Chief"),
        (tfjob({"Worker": {"template": {"spec": {}}}}), "template.spec.containers has no container: add one"),
        (tfjob({"Worker": replica(name="")}), r"containers\[0\].name is missing"),
        (tfjob({"Worker": replica(1, "Sometimes")}), "is Sometimes: use Never, Always, OnFailure or ExitCode"),
        (tfjob({"Worker": replica()}, successPolicy="Half"), "is Half: use AllWorkers or ChiefWorker"),
        (tfjob({"Worker": replica()}, runPolicy={"cleanPodPolicy": "Some"}), "is Some: use All, Running or None"),
        (tfjob({"Worker": replica()}, runPolicy={"backoffLimit": -1}), "is -1: use a number from 0 to 2,147,483,647"),
        (
            tfjob({"Worker": replica(ports=[PORTS[0], {"name": "tf", "containerPort": 1}])}),
            r"ports\[1\].name is tf, which is the name of TensorFlow's port, and that is another one: rename it",
        ),
        (tfjob({"Worker": replica(ports=[{"name": "tf", "containerPort": 9000}])}), "rename it"),
    ],
)
def test_what_cannot_be_converted_says_what_to_do(document: dict[str, Any], words: str):
    with pytest.raises(ConversionError, match=words):
        convert_tfjob(document)
