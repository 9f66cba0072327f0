"""What all scenarios use: a cluster with the operator installed, a namespace for jobs, and waits."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e import chart
from e2e.cluster import Cluster
from e2e.cluster.api_client import ApiClient, core_path
from e2e.failure import Failure
from e2e.job_monitor import FAST_POLL_SECONDS, POLL_SECONDS, JobMonitor
from e2e.jobs import Job, Variation, manifest, vary
from e2e.kill import kill_training
from e2e.recovery import Recovery, recovery

SLEEP = "import signal; signal.sigwait({signal.SIGTERM})"
WAIT = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\nwhile True: signal.pause()"
"""Runs until SIGTERM, and exits with 143: its work is not done."""

Record = Callable[[str, object], None]
"""pytest's `record_property`: adds a figure to the scenario's result in build/results/e2e.json."""


@dataclass(frozen=True)
class Installation:
    """A cluster with the operator installed: its API, and the images' names on the nodes."""

    cluster: Cluster
    api: ApiClient
    operator_image: str
    trainer_image: str

    def operator_pods(self) -> list[dict[str, Any]]:
        return self.api.items(
            core_path(chart.NAMESPACE, "pods"), labelSelector=f"app.kubernetes.io/instance={chart.RELEASE}"
        )


@dataclass(frozen=True)
class JobNamespace:
    """A namespace with an empty claim `checkpoints`; `checkpoints` is its directory where that is on this machine."""

    installation: Installation
    name: str
    checkpoints: Path | None

    def run(self, **changes: Any) -> tuple[Job, Variation]:
        """Create the example job with `changes` (fields of Variation)."""
        variation = Variation(self.installation.trainer_image, **changes)
        return Job.create(self.installation.api, self.name, vary(manifest(), variation)), variation

    def idle(self, **changes: Any) -> Job:
        """Create the example job with pods that only sleep, and end at once on SIGTERM."""
        variation = Variation(self.installation.trainer_image, **changes)
        body = vary(manifest(), variation)
        container = body["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["containers"][0]
        container |= {"command": ["python3", "-c", SLEEP], "args": []}
        del container["readinessProbe"]
        return Job.create(self.installation.api, self.name, body)

    def small(self, name: str, program: str = WAIT, **spec: Any) -> Job:
        """Create a job whose pods run a line of Python, without supervisor and TensorFlow; one worker by default.

        `workers`, `image` and `resources` are the worker's; all else goes into the job's spec.
        """
        container = {
            "name": "main",
            "image": spec.pop("image", self.installation.trainer_image),
            "command": ["python3", "-c", program],
            "resources": spec.pop("resources", {}),
        }
        pod = {"containers": [container], "terminationGracePeriodSeconds": 2}  # told to end, Python may not listen yet
        worker = {"replicas": spec.pop("workers", 1), "template": {"spec": pod}}
        body = {
            "apiVersion": "dtj.dev/v1alpha1",
            "kind": "DistributedTrainingJob",
            "metadata": {"name": name},
            "spec": {"replicaSpecs": {"worker": worker}, **spec},
        }
        return Job.create(self.installation.api, self.name, body)

    def monitor(self, job: Job) -> JobMonitor:
        return JobMonitor(self.installation.api, self.name, job.name)


def lowest_step(monitor: JobMonitor, workers: int) -> int:
    """Return the step that every worker's present training process has reached; 0 until all have made one."""
    pods = monitor.state.pods
    latest = [monitor.latest(pod["metadata"]["name"]) for pod in pods]
    steps = [
        sample.step
        for pod, sample in zip(pods, latest, strict=True)
        if sample is not None and sample.step is not None and sample.uid == pod["metadata"]["uid"]
    ]
    return min(steps) if len(steps) == workers else 0


def wait_until(true: Callable[[], Any], seconds: float, what: str) -> float:
    """Wait until `true`; returns the seconds it took. Failure names what did not happen."""
    began = time.monotonic()
    while not true():
        if time.monotonic() - began > seconds:
            raise Failure(f"{what}: not within {seconds:.0f} s.")
        time.sleep(poll_interval(began))
    return time.monotonic() - began


def poll_interval(began: float) -> float:
    """Return the seconds until the next poll: a fiftieth of the time waited so far, because polling costs time too."""
    return max(FAST_POLL_SECONDS, (time.monotonic() - began) / 50)


def wait_for_step(monitor: JobMonitor, workers: int, step: int = 1, seconds: float = 90) -> None:
    """Wait until all workers have reached `step`."""
    wait_until(lambda: lowest_step(monitor, workers) >= step, seconds, f"{workers} workers at step {step}")


def wait_for_more_steps(monitor: JobMonitor, workers: int, steps: int) -> None:
    """Wait until all workers are `steps` steps further than the furthest is now."""
    wait_for_step(monitor, workers, step=max(sample.step or 0 for sample in monitor.samples[-4:]) + steps)


def wait_for_checkpoint(monitor: JobMonitor, seconds: float = 60) -> None:
    """Wait until a checkpoint is reported."""
    wait_until(lambda: any(sample.checkpoint_step for sample in monitor.samples[-4:]), seconds, "a checkpoint")


def wait_for_standbys(monitor: JobMonitor, workers: int, seconds: float = 60) -> float:
    """Wait until each worker has a standby that is ready to take over; returns the seconds it took."""
    return wait_until(
        lambda: sum("\ndtj_standby_ready 1.0\n" in text for text in monitor.metrics()) == workers,
        seconds,
        f"a standby in each of {workers} workers",
    )


def time_recovery(monitor: JobMonitor, disturb: Callable[[], float], seconds: float = 60) -> Recovery:
    """Disturb the job (`disturb` returns the time of it) and wait until all its pods have made a new step."""
    names = [pod["metadata"]["name"] for pod in monitor.refresh().pods]
    monitor.poll_seconds = FAST_POLL_SECONDS
    time.sleep(2 * POLL_SECONDS)
    at = disturb()
    found: list[Recovery] = []

    def recovered() -> bool:
        monitor.poll_seconds = poll_interval(at)
        back = recovery(monitor.samples, at, names)
        found.extend([back] if back else [])
        return back is not None

    wait_until(recovered, seconds, f"a new step of each of {', '.join(names)}")
    monitor.poll_seconds = POLL_SECONDS
    return found[0]


def kill(installation: Installation, pod: dict[str, Any]) -> Callable[[], float]:
    """Return a function that kills the training process of a pod with SIGKILL, for `time_recovery`."""
    return lambda: kill_training(installation.cluster, pod)[0]


def delete(installation: Installation, pod: dict[str, Any]) -> Callable[[], float]:
    """Return a function that deletes a pod, for `time_recovery`."""

    def disturb() -> float:
        at = time.monotonic()
        installation.api.delete(core_path(pod["metadata"]["namespace"], "pods", pod["metadata"]["name"]))
        return at

    return disturb
