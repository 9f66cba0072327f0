"""The example job on a cluster: the committed manifest, varied for a run."""

import copy
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.api_client import ApiClient, core_path, jobs_path
from e2e.failure import Failure

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
MANIFEST = "digits-multiworker.yaml"


@dataclass(frozen=True)
class Variation:
    """The changes of a run to the committed manifest; everything else stays as written."""

    image: str
    workers: int = 2
    epochs: int = 12
    steps_per_epoch: int = 100
    name: str = "digits"
    one_worker_a_node: bool = True

    @property
    def expected_steps(self) -> int:
        return self.epochs * self.steps_per_epoch


def manifest(file: str = MANIFEST) -> dict[str, Any]:
    """Return a committed example, as written."""
    found: dict[str, Any] = yaml.safe_load((EXAMPLES / file).read_text(encoding="utf-8"))
    return found


def shrink(job: dict[str, Any], name: str, image: str, *arguments: str) -> dict[str, Any]:
    """Return a copy of an example for a shared machine: its own name and claim, a small CPU request, and arguments that
    make its program short.
    """
    varied: dict[str, Any] = json.loads(json.dumps(job))  # one template under several roles becomes several
    varied["metadata"]["name"] = name
    if "checkpoint" in varied["spec"]:
        varied["spec"]["checkpoint"]["persistentVolumeClaim"] = name
    for replica in varied["spec"]["replicaSpecs"].values():
        container = replica["template"]["spec"]["containers"][0]
        container["image"] = image
        container["args"] += arguments
        container["resources"]["requests"]["cpu"] = "100m"
    return varied


def vary(job: dict[str, Any], variation: Variation) -> dict[str, Any]:
    """Return a copy of the example job for one run."""
    varied = copy.deepcopy(job)
    varied["metadata"]["name"] = variation.name
    worker = varied["spec"]["replicaSpecs"]["worker"]
    worker["replicas"] = variation.workers
    pod = worker["template"]["spec"]
    container = pod["containers"][0]
    container["image"] = variation.image
    program = container["args"][0]
    container["args"] = [program, f"--epochs={variation.epochs}", f"--steps-per-epoch={variation.steps_per_epoch}"]
    spread = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    spread["labelSelector"]["matchLabels"]["dtj.dev/job-name"] = variation.name
    if not variation.one_worker_a_node:
        pod["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "podAffinityTerm": spread}
        ]}}  # fmt: skip
    return varied


@dataclass(frozen=True)
class Job:
    """One DistributedTrainingJob on the API server."""

    api: ApiClient
    namespace: str
    name: str

    @classmethod
    def create(cls, api: ApiClient, namespace: str, body: dict[str, Any]) -> "Job":
        api.post(jobs_path(namespace), body, fieldValidation="Strict")
        return cls(api, namespace, body["metadata"]["name"])

    def read(self) -> dict[str, Any]:
        return self.api.get(jobs_path(self.namespace, self.name))

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.read().get("status", {})
        return found

    def pods(self) -> list[dict[str, Any]]:
        return self.api.items(core_path(self.namespace, "pods"), labelSelector=f"dtj.dev/job-name={self.name}")

    def pod(self, replica: str) -> dict[str, Any]:
        """Return the pod of a role and index, as in `worker-0`."""
        return self.api.get(core_path(self.namespace, "pods", f"{self.name}-{replica}"))

    def log(self, replica: str) -> str:
        """Return what that pod's container has written."""
        return self.api.text(core_path(self.namespace, "pods", f"{self.name}-{replica}") + "/log")

    def delete(self) -> None:
        self.api.delete(jobs_path(self.namespace, self.name))

    def wait(self, what: str, true: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any]:
        """Wait until `true` holds for the status, and return that status; Failure tells the job's last message."""
        deadline = time.monotonic() + seconds
        while True:
            status = self.status()
            if true(status):
                return status
            if status.get("phase") == "Failed" or time.monotonic() > deadline:
                raise Failure(
                    f"Job {self.name} in namespace {self.namespace} was not {what} within {seconds:.0f} s: "
                    f"phase {status.get('phase', 'unset')}, {status.get('message', 'no message')!r}."
                )
            time.sleep(0.2)

    def succeeded(self, seconds: float) -> dict[str, Any]:
        return self.wait("Succeeded", lambda status: status.get("phase") == "Succeeded", seconds)


def termination(pod: dict[str, Any]) -> dict[str, Any]:
    """Return the trainer's termination message of a pod that ended; empty where there is none."""
    for container in pod["status"].get("containerStatuses", []):
        message = container.get("state", {}).get("terminated", {}).get("message", "")
        if message.startswith("{"):
            found: dict[str, Any] = json.loads(message)
            return found
    return {}
