"""Examples whose model lies in parts, as jobs on the cluster: its table on parameter servers, its layers on a mesh over
two pods, its stages on the devices of one. The clicks come from a real HDFS that pods know as `namenode`.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from e2e.cluster.api_client import core_path
from e2e.jobs import Job, manifest, shrink
from e2e.kill import kill_training
from e2e.scenarios.fixtures import JobNamespace, wait_until
from e2e.stores.criteo import LINES, write_log
from e2e.stores.hdfs import Hdfs, beside, hdfs
from e2e.trainers import Trainer

pytestmark = pytest.mark.e2e

SECONDS = 240
EPOCHS = 50
STEPS_PER_EPOCH = LINES // 100
EVERY_STEPS = 100
BUCKETS = "--buckets=100"
CLICKS = "webhdfs://namenode:9870/clicks"
MESH = re.compile(r"^loss (\S+) before, (\S+) after 60 steps; a device has \(8, 16\) of \(8, 32\)$", re.MULTILINE)


def start(job_namespace: JobNamespace, body: dict[str, Any], *arguments: str) -> Job:
    """Create the job under its manifest's name, which its anti-affinity refers to."""
    name = body["metadata"]["name"]
    job_namespace.installation.cluster.shared_volume(job_namespace.name, name)
    return Job.create(
        job_namespace.installation.api,
        job_namespace.name,
        shrink(body, name, job_namespace.installation.trainer_image, *arguments),
    )


@pytest.fixture(scope="module")
def jobs(job_namespace: JobNamespace) -> Iterator[dict[str, Job]]:
    """Start the jobs, by what is split: `layers`, `stages`, and `table` where the cluster's pods can reach an HDFS."""
    made = {
        "layers": start(job_namespace, both_pods_to_the_end(manifest("hybrid-dtensor.yaml")), "--steps=60"),
        "stages": start(job_namespace, manifest("pipeline-parallel.yaml"), "--epochs=3"),
    }
    cluster = job_namespace.installation.cluster
    logs = cluster.shared_volume(job_namespace.name, "logs")
    with ExitStack() as stack:
        place = cluster.server_place
        if place is not None and logs is not None:
            write_log(logs / "train.txt")
            name_it(job_namespace, stack.enter_context(hdfs(beside(place))))
            convert(job_namespace)
            made["table"] = start(job_namespace, clicks(), f"--epochs={EPOCHS}", "--batch=100", "--rate=0.2")
        yield made


def both_pods_to_the_end(body: dict[str, Any]) -> dict[str, Any]:
    """Change the job so that no pod is stopped because the first one is done."""
    body["spec"]["successPolicy"] = {"type": "AllWorkers"}
    return body


def name_it(job_namespace: JobNamespace, store: Hdfs) -> None:
    """Create a service `namenode` for an address that is not a pod's."""
    api, namespace = job_namespace.installation.api, job_namespace.name
    port = {"name": "http", "port": store.http}
    api.post(core_path(namespace, "services"), {
        "metadata": {"name": "namenode"}, "spec": {"clusterIP": "None", "ports": [port]},
    })  # fmt: skip
    api.post(f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices", {
        "metadata": {"name": "namenode", "labels": {"kubernetes.io/service-name": "namenode"}},
        "addressType": "IPv4", "endpoints": [{"addresses": [store.address]}], "ports": [port],
    })  # fmt: skip


def convert(job_namespace: JobNamespace) -> None:
    """Convert the log on the claim `logs` to Parquet on HDFS, in a pod of the trainer's image."""
    api, pods = job_namespace.installation.api, core_path(job_namespace.name, "pods")
    api.post(pods, {
        "metadata": {"name": "convert"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{
                "name": "convert", "image": job_namespace.installation.trainer_image, "imagePullPolicy": "IfNotPresent",
                "command": ["python", "examples/ctr.py", BUCKETS, "convert", "/logs/train.txt", CLICKS],
                "volumeMounts": [{"name": "logs", "mountPath": "/logs"}],
            }],
            "volumes": [{"name": "logs", "persistentVolumeClaim": {"claimName": "logs"}}],
        },
    })  # fmt: skip

    def phase() -> str:
        return str(api.get(f"{pods}/convert")["status"].get("phase"))

    wait_until(lambda: phase() in {"Succeeded", "Failed"}, 120, "the log converted")
    assert phase() == "Succeeded", api.text(f"{pods}/convert/log")


def clicks() -> dict[str, Any]:
    """Return the click example with a small table and many checkpoints."""
    body = manifest("ctr-parameter-server.yaml")
    body["spec"]["strategy"]["variablePartitioner"]["minShardBytes"] = 1024
    body["spec"]["checkpoint"]["everySteps"] = EVERY_STEPS
    container = body["spec"]["replicaSpecs"]["chief"]["template"]["spec"]["containers"][0]  # the same in all roles
    container["args"].insert(1, BUCKETS)
    return body


def test_stages_on_four_devices_of_a_pod_train(jobs: dict[str, Job]) -> None:
    status = jobs["stages"].succeeded(SECONDS)
    assert status["progress"]["metrics"]["accuracy"] > 0.7
    log = jobs["stages"].log("worker-0")
    assert "on device:CPU:0, device:CPU:1, device:CPU:2, device:CPU:3" in log


def test_a_mesh_over_two_pods_trains(jobs: dict[str, Job]) -> None:
    job = jobs["layers"]
    job.succeeded(SECONDS)
    pods = job.pods()
    assert len({pod["spec"]["nodeName"] for pod in pods}) == len(pods) == 2
    for replica in ("worker-0", "worker-1"):
        log = job.log(replica)
        said = MESH.search(log)
        assert said, log
        assert float(said[2]) < float(said[1]) / 2


def test_clicks_are_learnt_through_the_loss_of_a_worker_and_of_a_parameter_server(
    job_namespace: JobNamespace, jobs: dict[str, Job]
) -> None:
    """Check that a worker comes back without the chief, and a lost ps costs the steps since the last checkpoint."""
    if "table" not in jobs:
        pytest.skip("the pods of this cluster reach no server of this machine")
    job = jobs["table"]

    wait_until(lambda: len(job.pods()) == 5, 60, "five pods")
    pods = {replica: job.pod(replica) for replica in ("chief-0", "worker-1", "ps-0")}
    trainers = {
        replica: Trainer(job.api, job.namespace, pod["metadata"]["name"], pod["metadata"]["uid"])
        for replica, pod in pods.items()
    }

    def says(replica: str, key: str) -> int:
        return int((trainers[replica].status() or {}).get(key) or 0)

    wait_until(lambda: says("chief-0", "step") > 0, SECONDS, "a step of the clicks")
    kill_training(job_namespace.installation.cluster, pods["worker-1"])
    wait_until(lambda: says("worker-1", "restarts") == 1, 60, "worker 1 started again")
    assert says("chief-0", "restarts") == 0
    wait_until(lambda: says("chief-0", "lastCheckpointStep") > 0, 60, "a checkpoint of the clicks")
    kill_training(job_namespace.installation.cluster, pods["ps-0"])
    wait_until(lambda: says("chief-0", "restarts") > 0, 60, "the chief noticed the lost ps")

    status = job.succeeded(SECONDS)
    assert status["strategy"]["type"] == "ParameterServer"
    assert status["restarts"]["total"] == 0
    log = job.log("chief-0")
    *_, again = log.rpartition("starting again in place")
    assert int(re.findall(r"^dtj: step (\d+)/", again, re.MULTILINE)[0]) > EVERY_STEPS
    told = re.findall(
        rf"^loss (\S+) after {EPOCHS * STEPS_PER_EPOCH} steps; the table lies on ps 0, ps 1$", again, re.MULTILINE
    )
    assert told, log
    assert float(told[0]) < 0.4
