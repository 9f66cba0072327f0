"""Jobs of other operators become DistributedTrainingJobs that our schema accepts, and nothing is dropped silently."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from dtj.convert.conversion import Conversion, ConversionError
from dtj.convert.tfjob import convert_tfjob, is_tfjob
from dtj.convert.volcano import convert_volcano_job, is_volcano_job
from e2e.cluster.api_client import ApiClient
from tests.support.apiserver import ApiServer
from tests.support.apiserver.thread import in_a_thread


def replica(count: int = 1, policy: str | None = None, **container: Any) -> dict[str, Any]:
    main = {"name": "tensorflow", "image": "example.org/train:1", **container}
    found: dict[str, Any] = {"replicas": count, "template": {"spec": {"containers": [main]}}}
    return found | ({"restartPolicy": policy} if policy else {})


def tfjob(roles: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "mnist", "namespace": "team", "labels": {"a": "b"}},
        "spec": {"tfReplicaSpecs": roles, **spec},
    }


def says(conversion: Conversion, words: str) -> bool:
    return any(words in sentence for sentence in conversion.notes)


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


def test_every_role_of_a_tfjob_has_one_here_in_any_case_of_letters():
    given = {"MASTER": replica(), "worker": replica(2), "PS": replica(2, "Always"), "Evaluator": replica()}
    conversion = convert_tfjob(tfjob(given))
    roles = conversion.spec["replicaSpecs"]
    assert {role: one["replicas"] for role, one in roles.items()} == {"chief": 1, "worker": 2, "ps": 2, "evaluator": 1}
    assert {role: one["restartPolicy"] for role, one in roles.items()} == {
        "chief": "Never", "worker": "Never", "ps": "Always", "evaluator": "Never",
    }  # fmt: skip
    assert says(conversion, "The evaluator is not in the cluster of TF_CONFIG")
    assert "strategy" not in conversion.spec


def test_policies_move_below_spec_and_each_difference_is_told():
    policy = {
        "cleanPodPolicy": "All",
        "backoffLimit": 5,
        "activeDeadlineSeconds": 60,
        "ttlSecondsAfterFinished": 0,
        "suspend": True,
        "schedulingPolicy": {"queue": "research", "minAvailable": 2},
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
    for words in ("queue (research)", "minAvailable (2)", "spec.runPolicy.unheardOf", "backoffLimit", "ExitCode"):
        assert says(conversion, words), words


def test_policies_of_older_tfjobs_stand_beside_the_replicas():
    conversion = convert_tfjob(tfjob({"Worker": replica()}, cleanPodPolicy="Running", backoffLimit=0))
    assert conversion.spec["cleanPodPolicy"] == "Running"
    assert conversion.spec["failurePolicy"] == {"maxRestarts": 0}


def test_port_and_tf_config_of_the_template_are_ours():
    ports = [{"name": "tfjob-port", "containerPort": 3333}, {"name": "http", "containerPort": 80}]
    env = [{"name": "TF_CONFIG", "value": "{}"}, {"name": "A", "value": "1"}]
    given = replica(ports=ports, env=env, resources={"limits": {"nvidia.com/gpu": 1}})
    given["template"]["spec"]["restartPolicy"] = "OnFailure"
    conversion = convert_tfjob(tfjob({"Worker": given}))
    template = conversion.spec["replicaSpecs"]["worker"]["template"]["spec"]
    (main,) = template["containers"]
    assert [port["name"] for port in main["ports"]] == ["tf", "http"]
    assert main["env"] == [{"name": "A", "value": "1"}]
    assert main["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    assert "restartPolicy" not in template
    assert says(conversion, "TF_CONFIG is left out")
    assert says(conversion, "port tfjob-port is called tf")


def test_always_on_a_worker_becomes_on_failure():
    conversion = convert_tfjob(tfjob({"Worker": replica(1, "Always")}))
    assert conversion.spec["replicaSpecs"]["worker"]["restartPolicy"] == "OnFailure"
    assert says(conversion, "Always becomes OnFailure")


def test_another_main_container_is_told():
    conversion = convert_tfjob(tfjob({"Worker": replica(name="train")}))
    assert says(conversion, "has no container named tensorflow: its first one, train, trains")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (tfjob({"Worker": replica()}) | {"metadata": {"name": "a" * 41}}, "choose a shorter one"),
        (tfjob({"Trainer": replica()}), "make it Chief, Worker, PS or Evaluator"),
        (tfjob({"Chief": replica(), "Master": replica()}), "Master is a second chief: keep one"),
        (
            tfjob({"Worker": replica(), "worker": replica()}),
            "worker is a second worker: keep one",
        ),
        (tfjob({"Chief": replica(2)}), "make all chiefs but one workers"),
        (tfjob({"PS": replica()}), "add tfReplicaSpecs.Worker or tfReplicaSpecs.Chief"),
        (tfjob({"Worker": {"template": {"spec": {}}}}), "add one to template.spec.containers"),
        (tfjob({"Worker": replica(1, "Sometimes")}), "use one of Always, OnFailure, Never, ExitCode"),
        (tfjob({"Worker": replica()}, successPolicy="Half"), "use AllWorkers, or leave it out"),
    ],
)
def test_what_cannot_be_converted_says_what_to_do(document: dict[str, Any], words: str):
    with pytest.raises(ConversionError, match=words):
        convert_tfjob(document)


def volcano(tasks: list[dict[str, Any]], *arguments: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "mnist"},
        "spec": {"tasks": tasks, "plugins": {"svc": [], "env": [], "tensorflow": list(arguments)}, **spec},
    }


def task(name: str, count: int = 1) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "main", "image": "example.org/a:1"}]}}
    return {"name": name, "replicas": count, "template": template}


def test_tasks_of_a_volcano_job_are_roles_by_the_plugins_arguments():
    given = volcano(
        [task("server", 2), task("worker", 3), task("chief")], "--ps=server", "--port=3000",
        queue="research", minAvailable=6, maxRetry=5, volumes=[{"mountPath": "/data", "volumeClaimName": "data"}],
    )  # fmt: skip
    conversion = convert_volcano_job(given)
    roles = conversion.spec["replicaSpecs"]
    assert {role: one["replicas"] for role, one in roles.items()} == {"ps": 2, "worker": 3, "chief": 1}
    (main,) = roles["worker"]["template"]["spec"]["containers"]
    assert main["ports"] == [{"name": "tf", "containerPort": 3000}]
    assert main["volumeMounts"] == [{"name": "volume-0", "mountPath": "/data"}]
    assert conversion.spec["failurePolicy"] == {"maxRestarts": 5}
    for words in ("spec.queue is left out", "spec.minAvailable is left out", "has no container named tensorflow"):
        assert says(conversion, words), words


def test_a_task_that_the_plugin_does_not_know_is_refused():
    with pytest.raises(ConversionError, match="task data is none of chief, worker, ps, evaluator"):
        convert_volcano_job(volcano([task("worker"), task("data")]))


GPU = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
KINDS = {
    "workers": tfjob({"Worker": replica(2)}),
    "chief, workers and ps": tfjob({"Chief": replica(), "Worker": replica(2), "PS": replica(1, "Always")}),
    "workers and ps without a chief": tfjob({"Worker": replica(2), "PS": replica()}),
    "an evaluator": tfjob({"Chief": replica(), "Worker": replica(), "Evaluator": replica()}),
    "GPUs": tfjob({"Worker": replica(2, "ExitCode", **GPU)}),
    "a queue": tfjob({"Worker": replica(2)}, runPolicy={"schedulingPolicy": {"queue": "research"}}),
    "suspended": tfjob({"Worker": replica(2)}, runPolicy={"suspend": True}),
    "all clean-up": tfjob({"Worker": replica(1, "OnFailure")}, runPolicy={"cleanPodPolicy": "All"}),
    "all workers": tfjob({"Worker": replica(3, "Always")}, successPolicy="AllWorkers"),
    "a job of Volcano": volcano([task("ps"), task("worker", 2), task("chief")]),
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiClient]:
    with in_a_thread(ApiServer(namespaces=["team"])) as server:
        yield ApiClient(server.kubeconfig(tmp_path_factory.mktemp("api") / "kubeconfig"))


@pytest.mark.parametrize("document", KINDS.values(), ids=KINDS.keys())
def test_what_is_converted_is_accepted_to_the_last_field(api: ApiClient, document: dict[str, Any]):
    convert = convert_tfjob if is_tfjob(document) else convert_volcano_job
    path = "/apis/dtj.dev/v1alpha1/namespaces/team/distributedtrainingjobs?fieldValidation=Strict&dryRun=All"
    assert api.create(path, convert(document).manifest)["spec"]["replicaSpecs"]


def test_two_tasks_of_one_role_are_refused():
    with pytest.raises(ConversionError, match="task worker is a second worker"):
        convert_volcano_job(volcano([task("worker"), task("worker", 2)]))


def test_what_nobody_knows_is_named_wherever_it_stands():
    given = tfjob({"Worker": replica() | {"unheardOf": 1}}) | {"status": {}}
    given["spec"]["tfReplicaSpecs"]["Worker"]["template"]["stray"] = 1
    conversion = convert_tfjob(given)
    for words in ("The field status", "tfReplicaSpecs.Worker.unheardOf", "tfReplicaSpecs.Worker.template.stray"):
        assert says(conversion, words), words


def test_jobs_are_told_apart():
    assert is_tfjob(tfjob({}))
    assert is_volcano_job(volcano([]))
    assert not is_volcano_job(volcano([]) | {"spec": {"plugins": {"pytorch": []}}})
    assert not is_tfjob({"apiVersion": "v1", "kind": "Service"})
