"""What the API server says about manifests: the schema and the CEL rules of our CRD.

Asked of the real one, and of the one that the tests carry in their own process: both give the same answers.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from dtj_operator.api.cel.immutable_fields import IMMUTABLE_RULES
from dtj_operator.api.cel.rules import RULES_BY_PATH
from dtj_operator.api.crd import crd
from e2e.cluster.api_client import ApiClient, ApiError
from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.interface import ClusterError
from e2e.cluster.wait import wait_until
from tests.support.apiserver import ApiServer
from tests.support.apiserver.thread import in_a_thread
from tests.support.chart import wait_established

NAMESPACE = "manifests"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
JOBS = f"/apis/dtj.dev/v1alpha1/namespaces/{NAMESPACE}/distributedtrainingjobs"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
names = (f"job-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def api_in_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiClient]:
    """Return the API server of the tests, which has our CRD."""
    with in_a_thread(ApiServer(namespaces=[NAMESPACE])) as server:
        yield ApiClient(server.kubeconfig(tmp_path_factory.mktemp("api") / "kubeconfig"))


@pytest.fixture(scope="module")
def real_api(control_plane: ControlPlane) -> ApiClient:
    """Install our CRD in the real API server."""
    server = control_plane.api
    control_plane.namespace(NAMESPACE)
    definition = crd()
    server.create(DEFINITIONS, definition)
    wait_established(server)
    return server


@pytest.fixture(scope="module", params=["in_process", pytest.param("real", marks=pytest.mark.contract)])
def api(request: pytest.FixtureRequest) -> ApiClient:
    """Return each of the two."""
    found: ApiClient = request.getfixturevalue("api_in_process" if request.param == "in_process" else "real_api")
    return found


def container(**fields: Any) -> dict[str, Any]:
    return {"name": "tensorflow", "image": "example.org/train:1", **fields}


def role(replicas: int = 1, *containers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    template = {"spec": {"containers": list(containers) or [container()]}}
    return {"replicas": replicas, "template": template, **fields}


def manifest(name: str = "", /, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "dtj.dev/v1alpha1",
        "kind": "DistributedTrainingJob",
        "metadata": {"name": name or next(names)},
        "spec": {"replicaSpecs": {"worker": role()}, **spec},
    }


def create(api: ApiClient, job: dict[str, Any], *, strict: bool = False) -> dict[str, Any]:
    return api.create(JOBS + ("?fieldValidation=Strict" if strict else ""), job)


def on_slice(topology: str, chips: int, *, strategy: str = "Auto", **replicas: int) -> dict[str, Any]:
    tpu = {"accelerator": "tpu-v5-lite-podslice", "topology": topology, "chipsPerHost": chips}
    roles = {name: role(count) for name, count in replicas.items()}
    return manifest(tpu=tpu, strategy={"type": strategy}, replicaSpecs=roles)


REFUSED = {
    "a name that begins with a digit": (manifest("9lives"), "begin with a letter"),
    "a name with a dot": (manifest("a.b"), "use lower-case letters, digits and '-'"),
    "a name of 41 characters": (manifest("a" * 41), "longer than 40 characters"),
    "an unknown role": (manifest(replicaSpecs={"master": role()}), "rename or remove"),
    "an unknown role beside a valid one": (
        manifest(replicaSpecs={"worker": role(), "Worker": role()}),
        "lower case",
    ),
    "neither chief nor worker": (
        manifest(replicaSpecs={"evaluator": role()}),
        "add replicaSpecs.worker or replicaSpecs.chief",
    ),
    "two chiefs": (manifest(replicaSpecs={"chief": role(2)}), "at most one chief"),
    "negative replicas": (
        manifest(replicaSpecs={"worker": role(-1)}),
        "greater than or equal to 0",
    ),
    "more than 2,000 replicas": (
        manifest(replicaSpecs={"worker": role(2001)}),
        "less than or equal to 2000",
    ),
    "ParameterServer without ps": (
        manifest(strategy={"type": "ParameterServer"}, replicaSpecs={"chief": role(), "worker": role()}),
        "needs a chief, worker and ps",
    ),
    "ParameterServer without a chief": (
        manifest(strategy={"type": "ParameterServer"}, replicaSpecs={"ps": role(), "worker": role()}),
        "needs a chief, worker and ps",
    ),
    "ps under MultiWorkerMirrored": (
        manifest(
            strategy={"type": "MultiWorkerMirrored"},
            replicaSpecs={"chief": role(), "ps": role(), "worker": role()},
        ),
        "remove replicaSpecs.ps",
    ),
    "ps under Auto without a chief": (
        manifest(replicaSpecs={"ps": role(), "worker": role()}),
        "strategy.type to None",
    ),
    "ps under Auto with no chief pod": (
        manifest(replicaSpecs={"chief": role(0), "ps": role(), "worker": role()}),
        "strategy.type to None",
    ),
    "a template without containers": (
        manifest(replicaSpecs={"worker": {"template": {"spec": {}}}}),
        "has no container",
    ),
    "a template without a spec": (
        manifest(replicaSpecs={"worker": {"template": {}}}),
        "has no container",
    ),
    "no template": (manifest(replicaSpecs={"worker": {"replicas": 1}}), "template: Required value"),
    "an empty image": (
        manifest(replicaSpecs={"worker": role(1, container(image=""))}),
        "has no image",
    ),
    "a missing main container": (
        manifest(mainContainer="trainer"),
        "name one that is in every template",
    ),
    "an unknown strategy": (manifest(strategy={"type": "Horovod"}), 'supported values: "Auto"'),
    "an unknown restart policy": (
        manifest(replicaSpecs={"worker": role(restartPolicy="Sometimes")}),
        'supported values: "OnFailure"',
    ),
    "an unknown clean-up policy": (
        manifest(cleanPodPolicy="Some"),
        'supported values: "Running", "All", "None"',
    ),
    "an unknown scope": (
        manifest(failurePolicy={"restartScope": "World"}),
        'supported values: "Auto"',
    ),
    "an unknown success policy": (
        manifest(successPolicy={"type": "Any"}),
        'supported values: "Chief"',
    ),
    "an unknown rule action": (
        manifest(failurePolicy={"rules": [{"action": "Explode"}]}),
        'supported values: "Ignore"',
    ),
    "TF_CONFIG in the main container": (
        manifest(replicaSpecs={"worker": role(1, container(env=[{"name": "TF_CONFIG", "value": "{}"}]))}),
        "TF_CONFIG is set by the operator",
    ),
    "TF_CONFIG in a main container that is the first": (
        manifest(replicaSpecs={"worker": role(1, container(name="a", env=[{"name": "TF_CONFIG", "value": "{}"}]))}),
        "TF_CONFIG is set by the operator",
    ),
    "TF_CONFIG in a main container that is named": (
        manifest(
            mainContainer="b",
            replicaSpecs={
                "worker": role(1, container(), container(name="b", env=[{"name": "TF_CONFIG", "value": "{}"}]))
            },
        ),
        "TF_CONFIG is set by the operator",
    ),
    "Always on a worker": (
        manifest(replicaSpecs={"worker": role(restartPolicy="Always")}),
        "for ps and evaluator only",
    ),
    "Always on a chief": (
        manifest(replicaSpecs={"chief": role(restartPolicy="Always")}),
        "for ps and evaluator only",
    ),
    "crossDeviceOps under another strategy": (
        manifest(strategy={"type": "OneDevice", "crossDeviceOps": "NCCL"}),
        "crossDeviceOps is for Mirrored only",
    ),
    "communication under another strategy": (
        manifest(strategy={"type": "Mirrored", "communication": {"implementation": "Ring"}}),
        "communication is for MultiWorkerMirrored only",
    ),
    "a partitioner under another strategy": (
        manifest(strategy={"type": "OneDevice", "variablePartitioner": {"type": "MinSize"}}),
        "variablePartitioner is for ParameterServer only",
    ),
    "two workers under a one-pod strategy": (
        manifest(strategy={"type": "Mirrored"}, replicaSpecs={"worker": role(2)}),
        "runs in one pod",
    ),
    "a backoff whose maximum is below its start": (
        manifest(failurePolicy={"backoff": {"initialSeconds": 10, "maxSeconds": 5}}),
        "maxSeconds is smaller than initialSeconds",
    ),
    "no checkpoint kept": (
        manifest(checkpoint={"keep": 0}),
        "greater than or equal to 1",
    ),
    "a claim without a path": (
        manifest(checkpoint={"persistentVolumeClaim": "data"}),
        "set directory to an absolute path",
    ),
    "a TPU slice with too few hosts": (on_slice("4x4", 4, chief=1, worker=3), "a worker for each host"),
    "a TPU slice of several hosts without a chief": (on_slice("4x4", 4, worker=4), "has one chief"),
    "two TPU slices": (on_slice("2x2x2", 4, chief=1, worker=4), "a job has one"),
    "two pods for a TPU slice of one host": (on_slice("2x2", 4, chief=1, worker=1), "is one pod"),
    "a TPU slice without a host": (on_slice("2x4", 8, worker=0), "is one pod"),
    "a topology that hosts do not divide": (on_slice("2x3", 4, worker=1), "not a multiple of tpu.chipsPerHost"),
    "a topology that is none": (on_slice("large", 4, worker=1), "should match"),
    "a TPU slice under another strategy": (on_slice("2x2", 4, strategy="Mirrored", worker=1), "TPU strategy only"),
    "a TPU slice with ps": (on_slice("2x2", 4, strategy="TPU", chief=1, ps=1), "remove replicaSpecs.ps"),
    "a pattern of 257 characters": (
        manifest(failurePolicy={"rules": [{"action": "Ignore", "messagePattern": "a" * 257}]}),
        "Too long",
    ),
}


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.stem)
def test_an_example_is_accepted_to_the_last_field(api: ApiClient, file: Path) -> None:
    created = api.create(JOBS + "?fieldValidation=Strict&dryRun=All", yaml.safe_load(file.read_text()))
    assert created["spec"]["replicaSpecs"]


@pytest.mark.parametrize(("job", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_manifest_is_refused_with_a_sentence(api: ApiClient, job: dict[str, Any], words: str):
    with pytest.raises(ApiError) as refused:
        create(api, job)
    assert words in str(refused.value), str(refused.value)


ACCEPTED = {
    "the smallest": manifest(),
    "a name of 40 characters": manifest("a" * 40),
    "one chief alone": manifest(replicaSpecs={"chief": role()}),
    "no worker pod": manifest(replicaSpecs={"worker": role(0)}),
    "every role": manifest(
        replicaSpecs={"chief": role(), "worker": role(4), "ps": role(2), "evaluator": role()},
        strategy={"type": "ParameterServer", "variablePartitioner": {"type": "MinSize"}},
    ),
    "Auto with ps": manifest(replicaSpecs={"chief": role(), "worker": role(4), "ps": role(2)}),
    "None with any set of roles": manifest(
        strategy={"type": "None"}, replicaSpecs={"worker": role(2), "ps": role(restartPolicy="Always")}
    ),
    "TF_CONFIG in a side-car": manifest(
        replicaSpecs={
            "worker": role(1, container(), container(name="side", env=[{"name": "TF_CONFIG", "value": "{}"}]))
        }
    ),
    "communication under Auto": manifest(strategy={"communication": {"implementation": "Ring"}}),
    "a TPU slice of one host": on_slice("2x4", 8, worker=1),
    "a TPU slice of one host, which is the chief": on_slice("2x2", 4, chief=1, evaluator=1),
    "a TPU slice of four hosts": on_slice("4x4", 4, strategy="TPU", chief=1, worker=4),
    "a rule": manifest(
        failurePolicy={
            "rules": [
                {
                    "name": "disk",
                    "roles": ["worker"],
                    "exitCodes": {"operator": "In", "values": [3]},
                    "reasons": ["Error"],
                    "messagePattern": "disk .* full",
                    "action": "FailJob",
                }
            ]
        }
    ),
    "deadlines and a claim": manifest(
        activeDeadlineSeconds=10,
        startDeadlineSeconds=5,
        ttlSecondsAfterFinished=0,
        checkpoint={"directory": "/ckpt", "persistentVolumeClaim": "data"},
    ),
}


@pytest.mark.parametrize("job", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_a_good_manifest_is_accepted(api: ApiClient, job: dict[str, Any]):
    assert create(api, job, strict=True)["metadata"]["uid"]


def test_the_server_fills_in_the_defaults(api: ApiClient):
    spec = create(api, manifest())["spec"]
    assert spec["strategy"] == {
        "type": "Auto",
        "crossDeviceOps": "Auto",
        "communication": {"implementation": "Auto", "timeoutSeconds": 0, "bytesPerPack": 0},
    }
    assert spec["failurePolicy"]["backoff"] == {
        "initialSeconds": 1,
        "maxSeconds": 300,
        "resetAfterSeconds": 600,
    }
    assert spec["replicaSpecs"]["worker"]["restartPolicy"] == "OnFailure"
    assert spec["suspend"] is False
    assert spec["managedBy"] == ""


def test_every_field_of_a_template_is_kept_also_those_newer_than_this_operator(api: ApiClient):
    job = manifest()
    template = job["spec"]["replicaSpecs"]["worker"]["template"]
    template["metadata"] = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    template["spec"] |= {"tolerations": [{"operator": "Exists"}], "fieldOfTomorrow": {"x": [1]}}
    template["spec"]["containers"][0] |= {"resources": {"limits": {"nvidia.com/gpu": 1}}, "other": 1}
    kept = create(api, job)["spec"]["replicaSpecs"]["worker"]["template"]
    assert kept == template


def test_an_unknown_field_is_refused_under_strict_validation(api: ApiClient):
    with pytest.raises(ApiError, match="unknown field"):
        create(api, manifest(tensorBoard={}), strict=True)


# Updates

Change = dict[str, Any]

ALLOWED_WHILE_STARTED: dict[str, Change] = {
    "suspend": {"suspend": True},
    "worker replicas": {"replicaSpecs": {"worker": {"replicas": 5}}},
    "ttl": {"ttlSecondsAfterFinished": 5},
    "deadline": {"activeDeadlineSeconds": 5},
    "deadline removed": {"activeDeadlineSeconds": None},
    "maxRestarts": {"failurePolicy": {"maxRestarts": 9}},
    "cleanPodPolicy": {"cleanPodPolicy": "None"},
}

REFUSED_WHILE_STARTED: dict[str, Change] = {
    "strategy": {"strategy": {"type": "MultiWorkerMirrored"}},
    "mainContainer": {"mainContainer": "tensorflow"},
    "clusterDomain": {"clusterDomain": "example.org"},
    "successPolicy": {"successPolicy": {"type": "AllWorkers"}},
    "start deadline": {"startDeadlineSeconds": 5},
    "scope": {"failurePolicy": {"restartScope": "Job"}},
    "backoff": {"failurePolicy": {"backoff": {"initialSeconds": 2}}},
    "rules": {"failurePolicy": {"rules": [{"action": "Ignore"}]}},
    "node loss": {"failurePolicy": {"nodeLossSeconds": 5}},
    "checkpoint": {"checkpoint": {"keep": 9}},
    "a new role": {"replicaSpecs": {"evaluator": role()}},
    "restart policy": {"replicaSpecs": {"worker": {"restartPolicy": "Never"}}},
    "image": {"replicaSpecs": {"worker": {"template": {"spec": {"containers": [container(image="b")]}}}}},
    "a container field": {"replicaSpecs": {"worker": {"template": {"spec": {"containers": [container(args=["x"])]}}}}},
    "a variable": {
        "replicaSpecs": {
            "worker": {"template": {"spec": {"containers": [container(env=[{"name": "A", "value": "2"}])]}}}
        }
    },
    "a pod field": {"replicaSpecs": {"worker": {"template": {"spec": {"nodeSelector": {"a": "c"}}}}}},
    "a label": {"replicaSpecs": {"worker": {"template": {"metadata": {"labels": {"a": "c"}}}}}},
    "one typeless key for another": {
        "replicaSpecs": {"worker": {"template": {"spec": {"nodeSelector": None, "tolerations": []}}}}
    },
    "a key that the schema does not declare for one that it does": {
        "replicaSpecs": {"worker": {"template": {"spec": {"nodeSelector": None, "fieldOfTomorrow": 1}}}}
    },
    "a key more that the schema does not declare": {
        "replicaSpecs": {"worker": {"template": {"spec": {"fieldOfTomorrow": 1}}}}
    },
    "the value of a key that the schema does not declare": {
        "replicaSpecs": {"worker": {"template": {"metadata": {"fieldOfToday": 2}}}}
    },
}


def started(api: ApiClient, **spec: Any) -> str:
    """Create a job with a startTime; returns its path."""
    job = manifest(**{"activeDeadlineSeconds": 100, **spec})
    template = job["spec"]["replicaSpecs"]["worker"]["template"]
    template["metadata"] = {"labels": {"a": "b"}, "fieldOfToday": 1}
    template["spec"]["nodeSelector"] = {"a": "b"}
    template["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}]
    path = f"{JOBS}/{create(api, job)['metadata']['name']}"
    api.patch(f"{path}/status", {"status": {"startTime": "2026-01-01T00:00:00Z"}})
    return path


@pytest.mark.parametrize("change", ALLOWED_WHILE_STARTED.values(), ids=ALLOWED_WHILE_STARTED.keys())
def test_what_may_change_while_the_job_runs(api: ApiClient, change: Change):
    api.patch(started(api), {"spec": change})


@pytest.mark.parametrize("change", REFUSED_WHILE_STARTED.values(), ids=REFUSED_WHILE_STARTED.keys())
def test_what_may_not_change_while_the_job_runs(api: ApiClient, change: Change):
    with pytest.raises(ApiError, match="while the job runs: suspend the job first"):
        api.patch(started(api), {"spec": change})


def test_a_change_of_several_fields_is_refused_with_the_sentences_of_all(api: ApiClient):
    change = {"strategy": {"type": "OneDevice"}, "suspend": True, "checkpoint": {"keep": 9}}
    said = sentences(lambda: api.patch(started(api), {"spec": change}))
    assert {sentence.split()[0] for sentence in said} == {"strategy", "checkpoint"}


def test_a_status_sent_beside_a_change_does_not_let_it_through(api: ApiClient):
    path = started(api)
    api.patch(f"{path}/status", {"status": {"message": "one"}})
    with pytest.raises(ApiError, match="strategy cannot be changed while the job runs"):
        api.patch(path, {"spec": {"strategy": {"type": "OneDevice"}}, "status": {"message": "two"}})


@pytest.mark.parametrize("change", REFUSED_WHILE_STARTED.values(), ids=REFUSED_WHILE_STARTED.keys())
def test_everything_but_managed_by_may_change_in_the_update_that_resumes(api: ApiClient, change: Change):
    path = started(api)
    api.patch(path, {"spec": {"suspend": True}})
    api.patch(f"{path}/status", {"status": {"startTime": None}})
    api.patch(path, {"spec": {**copy.deepcopy(change), "suspend": False}})


def test_one_undeclared_key_of_a_template_for_another_is_what_no_rule_can_see(api: ApiClient):
    # The operator sees it: test_a_change_that_the_server_cannot_see_is_reported_and_not_acted_upon.
    keys = {"fieldOfToday": None, "fieldOfTomorrow": 1}
    api.patch(started(api), {"spec": {"replicaSpecs": {"worker": {"template": {"metadata": keys}}}}})


@pytest.mark.contract
@pytest.mark.parametrize("job", [job for job, _ in REFUSED.values()], ids=REFUSED.keys())
def test_both_servers_refuse_a_manifest_with_the_same_sentences(
    real_api: ApiClient, api_in_process: ApiClient, job: dict[str, Any]
):
    assert sentences(lambda: create(real_api, job)) == sentences(lambda: create(api_in_process, job))


@pytest.mark.contract
@pytest.mark.parametrize("change", REFUSED_WHILE_STARTED.values(), ids=REFUSED_WHILE_STARTED.keys())
def test_both_servers_refuse_a_change_with_the_same_sentences(
    real_api: ApiClient, api_in_process: ApiClient, change: Change
):
    patch = {"spec": change}
    in_process, real = started(api_in_process), started(real_api)
    assert sentences(lambda: api_in_process.patch(in_process, patch)) == sentences(lambda: real_api.patch(real, patch))


def sentences(attempt: Callable[[], object]) -> set[str]:
    """Return the messages of our rules with which the server refuses."""
    with pytest.raises(ApiError) as refused:
        attempt()
    rules = (*itertools.chain(*RULES_BY_PATH.values()), *IMMUTABLE_RULES)
    return {rule.message for rule in rules if rule.message in str(refused.value)}


def test_managed_by_never_changes(api: ApiClient):
    path = f"{JOBS}/{create(api, manifest(suspend=True))['metadata']['name']}"
    with pytest.raises(ApiError, match="managedBy cannot be changed"):
        api.patch(path, {"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}})


def test_a_role_cannot_be_removed_while_the_job_runs(api: ApiClient):
    path = started(api, replicaSpecs={"worker": role(), "evaluator": role()})
    with pytest.raises(ApiError, match=r"Of replicaSpecs only worker\.replicas"):
        api.patch(path, {"spec": {"replicaSpecs": {"evaluator": None}}})


@pytest.mark.contract
def test_the_scale_subresource_reads_and_writes_the_workers(real_api: ApiClient):
    path = started(real_api)
    real_api.patch(f"{path}/status", {"status": {"selector": "a=b", "replicaStatuses": {"worker": {"created": 1}}}})
    scale = real_api.get(f"{path}/scale")
    assert scale["spec"]["replicas"] == 1
    assert scale["status"] == {"replicas": 1, "selector": "a=b"}
    real_api.patch(f"{path}/scale", {"spec": {"replicas": 4}})
    assert real_api.get(path)["spec"]["replicaSpecs"]["worker"]["replicas"] == 4


def test_the_status_that_the_operator_writes_is_kept_whole(api: ApiClient):
    from tests.support.job_builder import failed, job, ready

    world = job(worker=3, ps=1, chief=1, evaluator=1).running()
    world.pod("worker", 1, failed(1, message="boom")).later(1).reconcile().later(1).reconcile()
    world.pod("evaluator", 0, failed(1)).pod("ps", 0, ready()).later(5).reconcile()
    wire = world.status.wire()
    path = f"{JOBS}/{create(api, manifest())['metadata']['name']}"
    assert api.patch(f"{path}/status", {"status": wire})["status"] == wire


@pytest.mark.contract
@pytest.mark.usefixtures("real_api")
def test_every_field_is_explained(control_plane: ControlPlane):
    explained = ""

    def served() -> bool:
        """Discovery and OpenAPI know a definition some moments after it is Established."""
        nonlocal explained
        with suppress(ClusterError):
            explained = control_plane.kubectl("explain", "dtj.spec.failurePolicy.backoff")
        return bool(explained)

    wait_until(served, 30, lambda: "kubectl explain does not know the resource")
    assert "Seconds before the first charged restart" in explained
    assert "<no description>" not in explained


def test_the_committed_definition_is_the_generated_one():
    committed = Path(__file__).parents[2] / "crds" / "dtj.dev_distributedtrainingjobs.yaml"
    assert yaml.safe_load(committed.read_text()) == crd(), "run `make generate`"
