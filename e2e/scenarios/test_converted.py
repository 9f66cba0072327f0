"""Jobs of other operators, converted by `dtj convert` and applied by kubectl, from the manifest to Succeeded.

One trains: the TFJob of the page on migration, with a script that builds its strategy from TF_CONFIG. The others have
every role, and programs of a line that check what they are told. All run at the same time.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.jobs import Job
from e2e.scenarios.fixtures import WAIT, JobNamespace

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "howto" / "migrate-from-tfjob.md"
SECONDS = 240
CHECK = """
import json, os
told = json.loads(os.environ["TF_CONFIG"])
assert {role: len(found) for role, found in told["cluster"].items()} == {"chief": 1, "worker": 2, "ps": 1}, told
assert told["task"]["type"] == os.environ["DTJ_ROLE"], told
assert all(address.endswith(":3333") for found in told["cluster"].values() for address in found), told
"""
PROGRAMS = {"chief": CHECK, "worker": CHECK, "ps": CHECK + WAIT, "evaluator": WAIT}
"""By role: who trains ends at once, who serves waits to be stopped."""
COUNTS = {"chief": 1, "worker": 2, "ps": 1, "evaluator": 1}


def training(image: str) -> dict[str, Any]:
    """Return the TFJob of the page, with our image and a short program."""
    (text,) = re.findall(r"^```yaml\n(apiVersion: kubeflow.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    job: dict[str, Any] = yaml.safe_load(text)
    container = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container["image"] = image
    container["command"] = ["python3", "examples/tutorial.py", "--epochs=2", "--steps-per-epoch=20"]
    return job


def template(image: str, role: str) -> dict[str, Any]:
    container = {
        "name": "tensorflow",
        "image": image,
        "command": ["python3", "-c", PROGRAMS[role]],
        "ports": [{"name": "tfjob-port", "containerPort": 3333}],
    }
    return {"spec": {"containers": [container], "terminationGracePeriodSeconds": 2}}


def all_roles(image: str) -> dict[str, Any]:
    names = {"chief": "Chief", "worker": "Worker", "ps": "PS", "evaluator": "Evaluator"}
    roles = {
        name: {"replicas": COUNTS[role], "restartPolicy": "Never", "template": template(image, role)}
        for role, name in names.items()
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "all-roles"},
        "spec": {"runPolicy": {"cleanPodPolicy": "All"}, "tfReplicaSpecs": roles},
    }


def of_volcano(image: str) -> dict[str, Any]:
    tasks = [{"name": role, "replicas": count, "template": template(image, role)} for role, count in COUNTS.items()]
    plugins = {"svc": [], "env": [], "tensorflow": ["--port=3333"]}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "of-volcano"},
        "spec": {"minAvailable": 5, "schedulerName": "volcano", "plugins": plugins, "tasks": tasks},
    }


@pytest.fixture(scope="module")
def jobs(job_namespace: JobNamespace) -> dict[str, Job]:
    """Convert and apply all, with the commands that people use."""
    installation = job_namespace.installation
    foreign = [make(installation.trainer_image) for make in (training, all_roles, of_volcano)]
    converted = subprocess.run(
        [sys.executable, "-m", "dtj", "convert", "-"],
        input="\n---\n".join(map(json.dumps, foreign)),
        env=os.environ | {"PYTHONPATH": str(ROOT / "client")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    installation.cluster.kubectl("apply", "-n", job_namespace.name, "-f", "-", stdin=converted)
    return {
        job["metadata"]["name"]: Job(installation.api, job_namespace.name, job["metadata"]["name"]) for job in foreign
    }


@pytest.mark.parametrize("name", ["digits", "all-roles", "of-volcano"])
def test_a_converted_job_succeeds(jobs: dict[str, Job], name: str) -> None:
    jobs[name].succeeded(SECONDS)


def test_the_workers_have_trained_together(jobs: dict[str, Job]) -> None:
    jobs["digits"].succeeded(SECONDS)
    said = jobs["digits"].log("worker-0")
    assert "Strategy with 2 replicas" in said
    assert re.search(r"after 40 steps$", said, re.MULTILINE)
