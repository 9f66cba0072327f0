"""The operator as a process beside a real API server, with exactly the roles of the chart."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from e2e.cluster.api_client import ApiClient
from e2e.cluster.wait import wait_until
from tests.support.chart import OPERATOR_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from e2e.cluster.control_plane import ControlPlane

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60.0
"""How long anything may take on a busy machine."""


@contextmanager
def operator(
    config: Path, *flags: str, program: Path = ROOT / "operator", home: Path = ROOT
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `dtj-operator run` with that kubeconfig; stops it by SIGTERM, and asserts exit code 0.

    `program`: the folder or wheel of the operator; `home`: where it runs.
    """
    inherited = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "VIRTUAL_ENV"}}
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "dtj_operator", "run", "--metrics-bind-address=0"),
            *("--health-probe-bind-address=0", "--log-level=warning", *flags),
        ],
        env={
            **inherited,
            "PYTHONPATH": str(program),
            "KUBECONFIG": str(config),
            "POD_NAMESPACE": OPERATOR_NAMESPACE,
        },
        cwd=home,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
    assert code == 0, f"the operator ended with code {code}"


class Jobs:
    """The jobs of one namespace, as a user sees them."""

    def __init__(self, control_plane: ControlPlane, namespace: str) -> None:
        self.namespace = control_plane.namespace(namespace)
        self.api: ApiClient = control_plane.api
        self._core = f"/api/v1/namespaces/{namespace}"
        self._jobs = f"/apis/dtj.dev/v1alpha1/namespaces/{namespace}/distributedtrainingjobs"

    def create(self, name: str, *, worker: int = 2, scheduler: str = "", **spec: Any) -> None:
        """Create a job of so many workers. With a scheduler that does not exist its pods are left to the test."""
        pod: dict[str, Any] = {"containers": [{"name": "tensorflow", "image": "example.org/train:1"}]}
        template = {"spec": pod | ({"schedulerName": scheduler} if scheduler else {})}
        self.create_spec(name, {"replicaSpecs": {"worker": {"replicas": worker, "template": template}}, **spec})

    def create_spec(self, name: str, spec: dict[str, Any]) -> None:
        """Create a job with that spec."""
        job = {"apiVersion": "dtj.dev/v1alpha1", "kind": "DistributedTrainingJob", "metadata": {"name": name}}
        self.api.create(self._jobs, {**job, "spec": spec})

    def delete_all(self) -> None:
        """Delete all jobs of the namespace."""
        for name in self.names():
            self.api.delete(f"{self._jobs}/{name}")

    def create_in_core(self, plural: str, body: dict[str, Any]) -> None:
        """Create an object of the core group."""
        self.api.create(f"{self._core}/{plural}", body)

    def delete_in_core(self, plural: str, name: str) -> None:
        """Delete an object of the core group."""
        self.api.delete(f"{self._core}/{plural}/{name}")

    def get(self, name: str) -> dict[str, Any]:
        """Return the job."""
        found: dict[str, Any] = self.api.get(f"{self._jobs}/{name}")
        return found

    def names(self) -> list[str]:
        """Return the names of all jobs."""
        return [job["metadata"]["name"] for job in self.api.get(self._jobs)["items"]]

    def status(self, name: str) -> dict[str, Any]:
        """Return the job's status; empty when there is none."""
        return self.get(name).get("status") or {}

    def edit(self, name: str, **spec: Any) -> None:
        """Merge into the spec."""
        self.api.patch(f"{self._jobs}/{name}", {"spec": spec})

    def patch_status(self, name: str, status: dict[str, Any]) -> None:
        """Merge into the status, as another version of the operator does."""
        self.api.patch(f"{self._jobs}/{name}/status", {"status": status})

    def touch(self, name: str, number: int) -> None:
        """Change nothing but the job's resourceVersion."""
        self.api.patch(f"{self._jobs}/{name}", {"metadata": {"annotations": {"touched": str(number)}}})

    def pods(self) -> dict[str, dict[str, Any]]:
        """Return all pods by name."""
        return {pod["metadata"]["name"]: pod for pod in self.api.get(f"{self._core}/pods")["items"]}

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the events of a job."""
        found = self.api.get(f"{self._core}/events?fieldSelector=involvedObject.name={name}")
        return list(found["items"])

    def start_pod(self, name: str) -> None:
        """Report a pod as Ready, as a kubelet does."""
        ready = {"type": "Ready", "status": "True"}
        self.api.patch(f"{self._core}/pods/{name}/status", {"status": {"phase": "Running", "conditions": [ready]}})

    def end_pod(self, name: str, code: int, message: str = "") -> None:
        """Report that a pod's container has ended, as a kubelet does."""
        ended = {
            "exitCode": code,
            "reason": "Completed" if code == 0 else "Error",
            "finishedAt": "2026-01-01T00:00:00Z",
            "message": message,
        }
        container = {"name": "tensorflow", "image": "example.org/train:1", "imageID": "", "ready": False}
        status = {
            "phase": "Failed" if code else "Succeeded",
            "containerStatuses": [{**container, "restartCount": 0, "state": {"terminated": ended}}],
        }
        self.api.patch(f"{self._core}/pods/{name}/status", {"status": status})

    def holds(self, name: str, kind: str, reason: str = "") -> bool:
        """Tell whether a condition is True, with that reason if one is given."""
        return any(
            one["type"] == kind and one["status"] == "True" and reason in {"", one["reason"]}
            for one in self.status(name).get("conditions") or ()
        )

    def until(self, reached: Callable[[], bool], what: str) -> None:
        """Wait until a condition holds."""
        wait_until(reached, SECONDS, lambda: f"{what} was not reached; jobs: {self._told()}")

    def _told(self) -> str:
        return "; ".join(
            f"{job['metadata']['name']}: {(job.get('status') or {}).get('phase')} "
            f"({(job.get('status') or {}).get('message')})"
            for job in self.api.get(self._jobs)["items"]
        )
