"""The guide to GKE: its kubectl and helm commands, and both jobs, on simulated nodes like those of GKE."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster import binaries
from e2e.cluster.control_plane import ControlPlane
from tests.contract.operator_under_test import Jobs, operator
from tests.support.chart import CHART, RIGHTS, apply
from tests.support.gke_nodes import gke_node, nodes

pytestmark = [pytest.mark.contract, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "howto" / "gke.md").read_text()
COMMANDS = [
    line.replace("\\\n", "")
    for block in re.findall(r"^```sh\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    for line in re.sub(r"\\\n", "", block).splitlines()
]
NAMESPACE = "gke-guide"
VARIABLES = {"REGISTRY": "example.org/training", "BUCKET": "checkpoints", "PROJECT": "p", "ZONE": "z", "REGION": "r"}
GPU = {"cloud.google.com/gke-accelerator": "nvidia-l4"}
TPU = {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice", "cloud.google.com/gke-tpu-topology": "2x4"}
JOBS = {"gke-gpu.yaml": "gpu", "gke-tpu.yaml": "tpu"}
"""For each example the last word of its job's name, and the first of its nodes' names."""


@pytest.fixture(scope="module")
def jobs(strict_control_plane: ControlPlane, account: Path) -> Iterator[Jobs]:
    accelerated = [
        *(gke_node(f"gpu-{index}", GPU, {"nvidia.com/gpu": 1}) for index in range(2)),
        gke_node("tpu-0", TPU, {"google.com/tpu": 8}),
    ]
    apply(strict_control_plane, kinds=(*RIGHTS, "ConfigMap"), values=CHART / "values-gke.yaml")
    found = Jobs(strict_control_plane, NAMESPACE)
    with (
        nodes(strict_control_plane.api, accelerated),
        operator(account, "--no-progress", f"--namespace={NAMESPACE}", "--profiles=dtj-operator-profiles"),
    ):
        yield found
        found.delete_all()


def run(control_plane: ControlPlane, command: str) -> str:
    """Run a command of the guide as a person would in a shell whose namespace is the test's."""
    programs = [binaries.path(name).parent for name in ("kubectl", "helm")]
    configured = control_plane.directory / "gke-guide.kubeconfig"
    configured.write_bytes(control_plane.kubeconfig.read_bytes())
    environment = os.environ | VARIABLES | {
        "KUBECONFIG": str(configured), "PATH": ":".join([*map(str, programs), os.environ["PATH"]]),
    }  # fmt: skip
    namespace = f"kubectl config set-context --current --namespace={NAMESPACE} >/dev/null"
    done = subprocess.run(
        ["bash", "-euc", f"{namespace}; {command}"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def commands(pattern: str) -> list[str]:
    found = [line for line in COMMANDS if re.search(pattern, line)]
    assert found, pattern
    return found


def test_every_command_is_of_a_known_program():
    known = ("gcloud ", "docker ", "export ", "NUMBER=$(gcloud ", "kubectl ", "helm ", "sed ")
    assert [line for line in COMMANDS if line.strip() and not line.startswith(known)] == []


@pytest.mark.parametrize("example", JOBS)
def test_a_job_of_the_guide_runs_on_the_nodes_that_it_asks_for(
    jobs: Jobs, strict_control_plane: ControlPlane, example: str
):
    name, prefix = f"digits-{JOBS[example]}", f"{JOBS[example]}-"
    if not jobs.api.find(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/trainer"):
        (create,) = commands("^kubectl create serviceaccount")
        run(strict_control_plane, create)
    (applied,) = commands(rf"examples/{example} \| kubectl apply")
    run(strict_control_plane, applied)
    jobs.until(lambda: jobs.holds(name, "Running"), "a running job")
    pods = [pod for key, pod in jobs.pods().items() if key.startswith(name)]
    assert all(pod["spec"]["nodeName"].startswith(prefix) for pod in pods)
    assert {pod["spec"]["serviceAccountName"] for pod in pods} == {"trainer"}
    values = [each.get("value", "") for each in pods[0]["spec"]["containers"][0]["env"]]
    assert any(f'"gs://checkpoints/{name}"' in value for value in values)
    (shown,) = commands(f"^kubectl get dtj {name} -o wide")
    assert "Running" in run(strict_control_plane, shown)
    for pod in pods:
        jobs.end_pod(pod["metadata"]["name"], 0)
    (wait,) = commands(f"^kubectl wait dtj/{name} ")
    run(strict_control_plane, wait.replace("--timeout=30m", "--timeout=30s"))
    assert jobs.status(name)["phase"] == "Succeeded"


def test_the_operator_is_installed_as_the_guide_says(strict_control_plane: ControlPlane):
    (install,) = commands("^helm install")
    rendered = run(strict_control_plane, install.replace("helm install", "helm template"))
    assert "example.org/training/dtj-operator:0.1.0" in rendered
    assert "--profiles=dtj-operator-profiles" in rendered
