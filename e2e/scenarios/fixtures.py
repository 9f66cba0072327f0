"""What every scenario stands on: a cluster with the operator installed, and a place of its own for each job."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e import chart
from e2e.api import Api, core_path
from e2e.cluster import Cluster
from e2e.failure import Failure
from e2e.job_monitor import CALM_SECONDS, CLOSE_SECONDS, Watcher
from e2e.jobs import Job, Variation, manifest, vary
from e2e.kill import kill_training
from e2e.recovery import Recovery, recovery

SLEEP = "import signal; signal.sigwait({signal.SIGTERM})"
WAIT = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\nwhile True: signal.pause()"
"""Runs until it is told to end, and says then that its work is not done."""

Record = Callable[[str, object], None]
"""pytest's `record_property`: a figure that goes into build/results/e2e.json beside the scenario's result."""


@dataclass(frozen=True)
class Ground:
    """The cluster, its API, and the trainer image's name on the nodes."""

    cluster: Cluster
    api: Api
    trainer_image: str

    def operator_pods(self) -> list[dict[str, Any]]:
        return self.api.items(
            core_path(chart.NAMESPACE, "pods"), labelSelector=f"app.kubernetes.io/instance={chart.RELEASE}"
        )


@dataclass(frozen=True)
class Place:
    """A namespace with an empty claim `checkpoints`; `checkpoints` is its directory where it is on this machine."""

    ground: Ground
    namespace: str
    checkpoints: Path | None

    def run(self, **changes: Any) -> tuple[Job, Variation]:
        """Apply the example with `changes` (fields of Variation)."""
        variation = Variation(self.ground.trainer_image, **changes)
        return Job.create(self.ground.api, self.namespace, vary(manifest(), variation)), variation

    def idle(self, **changes: Any) -> Job:
        """The example job with pods that only sleep, and end at once when told to."""
        variation = Variation(self.ground.trainer_image, **changes)
        body = vary(manifest(), variation)
        container = body["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["containers"][0]
        container |= {"command": ["python3", "-c", SLEEP], "args": []}
        del container["readinessProbe"]
        return Job.create(self.ground.api, self.namespace, body)

    def small(self, name: str, program: str = WAIT, **spec: Any) -> Job:
        """A job whose pods only run a line of Python, without supervisor and TensorFlow: one worker unless `workers`
        says more. `image` and `resources` are the container's; all else goes into the job's spec.
        """
        container = {
            "name": "main",
            "image": spec.pop("image", self.ground.trainer_image),
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
        return Job.create(self.ground.api, self.namespace, body)

    def watch(self, job: Job) -> Watcher:
        return Watcher(self.ground.api, self.namespace, job.name)


def trained(watcher: Watcher, workers: int) -> int:
    """The step that every worker's present child has reached; 0 until all have made one."""
    pods = watcher.world.pods
    latest = [watcher.latest(pod["metadata"]["name"]) for pod in pods]
    steps = [
        sample.step
        for pod, sample in zip(pods, latest, strict=True)
        if sample is not None and sample.step is not None and sample.uid == pod["metadata"]["uid"]
    ]
    return min(steps) if len(steps) == workers else 0


def until(true: Callable[[], Any], seconds: float, what: str) -> float:
    """Wait until `true`; returns the seconds it took. Failure names what did not happen."""
    began = time.monotonic()
    while not true():
        if time.monotonic() - began > seconds:
            raise Failure(f"{what}: not within {seconds:.0f} s.")
        time.sleep(pace(began))
    return time.monotonic() - began


def pace(began: float) -> float:
    """Seconds until the next look at what began then: a fiftieth of what it takes. Looking on costs time too."""
    return max(CLOSE_SECONDS, (time.monotonic() - began) / 50)


def training(watcher: Watcher, workers: int, step: int = 1, seconds: float = 90) -> None:
    """Wait until all workers have reached `step`."""
    until(lambda: trained(watcher, workers) >= step, seconds, f"{workers} workers at step {step}")


def training_on(watcher: Watcher, workers: int, steps: int) -> None:
    """Wait until all workers are so many steps further than whoever is furthest now."""
    training(watcher, workers, step=max(sample.step or 0 for sample in watcher.samples[-4:]) + steps)


def checkpoint_made(watcher: Watcher, seconds: float = 60) -> None:
    """Wait until a checkpoint is reported."""
    until(lambda: any(sample.checkpoint_step for sample in watcher.samples[-4:]), seconds, "a checkpoint")


def standbys_ready(watcher: Watcher, workers: int, seconds: float = 60) -> float:
    """Wait until each worker has a second process that is ready to take over; returns the seconds it took."""
    return until(
        lambda: sum("\ndtj_standby_ready 1\n" in text for text in watcher.metrics()) == workers,
        seconds,
        f"a standby in each of {workers} workers",
    )


def time_recovery(watcher: Watcher, disturb: Callable[[], float], seconds: float = 60) -> Recovery:
    """Disturb the job (`disturb` returns the moment) and wait until all its pods have made a new step."""
    names = [pod["metadata"]["name"] for pod in watcher.look().pods]
    watcher.pace = CLOSE_SECONDS
    time.sleep(2 * CALM_SECONDS)
    at = disturb()
    found: list[Recovery] = []

    def recovered() -> bool:
        watcher.pace = pace(at)
        back = recovery(watcher.samples, at, names)
        found.extend([back] if back else [])
        return back is not None

    until(recovered, seconds, f"a new step of each of {', '.join(names)}")
    watcher.pace = CALM_SECONDS
    return found[0]


def kill(ground: Ground, pod: dict[str, Any]) -> Callable[[], float]:
    """`kill -9` of the training process of a pod, for `time_recovery`."""
    return lambda: kill_training(ground.cluster, pod)[0]


def delete(ground: Ground, pod: dict[str, Any]) -> Callable[[], float]:
    """`kubectl delete pod`, for `time_recovery`."""

    def disturb() -> float:
        at = time.monotonic()
        ground.api.delete(core_path(pod["metadata"]["namespace"], "pods", pod["metadata"]["name"]))
        return at

    return disturb
