"""Monitors a job from outside: its resource, its pods, and each trainer's /status, on one clock.

One thread polls the API server, another the trainers; both only read. Times are `time.monotonic()`.
"""

import threading
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from e2e.cluster.api_client import ApiClient, ApiUnavailable, core_path, jobs_path
from e2e.trainers import Trainer

POLL_SECONDS = 0.25
"""How often the API server is polled, and trainers usually."""
FAST_POLL_SECONDS = 0.02
"""How often trainers are polled while a recovery is timed."""


@dataclass(frozen=True)
class Sample:
    """One trainer's /status at one time."""

    at: float
    pod: str
    uid: str
    phase: str
    step: int | None
    total_steps: int | None
    loss: float | None
    steps_per_second: float | None
    restarts: int
    updated: str
    checkpoint_step: int | None


@dataclass(frozen=True)
class JobState:
    """The job and its pods as last read; `job` is empty when it does not exist."""

    job: dict[str, Any] = field(default_factory=dict)
    pods: tuple[dict[str, Any], ...] = ()

    @property
    def phase(self) -> str:
        return str(self.job.get("status", {}).get("phase", "")) if self.job else ""

    def condition(self, kind: str) -> dict[str, Any] | None:
        for condition in self.job.get("status", {}).get("conditions", []):
            if condition["type"] == kind and condition["status"] == "True":
                found: dict[str, Any] = condition
                return found
        return None

    def pod(self, name: str) -> dict[str, Any] | None:
        return next((pod for pod in self.pods if pod["metadata"]["name"] == name), None)


class JobMonitor:
    """A context manager that polls in the background; `state` and `samples` may be read at any time."""

    def __init__(self, api: ApiClient, namespace: str, job: str) -> None:
        self.state = JobState()
        self.samples: list[Sample] = []
        self.poll_seconds = POLL_SECONDS
        self._api = api
        self._namespace = namespace
        self._job = job
        self._trainers: dict[str, Trainer] = {}
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._poll_api, name="watch-api", daemon=True),
            threading.Thread(target=self._poll_trainers, name="watch-trainers", daemon=True),
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=5)

    def latest(self, pod: str) -> Sample | None:
        """Return the newest sample of a pod."""
        return next((sample for sample in reversed(self.samples) if sample.pod == pod), None)

    def refresh(self) -> JobState:
        """The state at this moment, asked for now."""
        job = self._api.find(jobs_path(self._namespace, self._job)) or {}
        pods = self._api.items(
            core_path(self._namespace, "pods"), labelSelector=f"dtj.dev/job-name={self._job}", resourceVersion="0"
        )
        self.state = JobState(job, tuple(sorted(pods, key=_replica)))
        return self.state

    def metrics(self) -> list[str]:
        """Return the /metrics page of each trainer that answers."""
        answers = [trainer.get("/metrics") for trainer in list(self._trainers.values())]
        return [answer.decode() for answer in answers if answer is not None]

    def _poll_api(self) -> None:
        while not self._stop.is_set():
            try:
                state = self.refresh()
            except ApiUnavailable:  # the API server is away for a moment; the caller's own time limit decides
                state = self.state
            self._trainers = {
                pod["metadata"]["uid"]: self._trainers.get(pod["metadata"]["uid"]) or self._trainer(pod)
                for pod in state.pods
                if pod["status"].get("phase") == "Running"
            }
            self._stop.wait(POLL_SECONDS)

    def _trainer(self, pod: dict[str, Any]) -> Trainer:
        return Trainer(self._api, self._namespace, pod["metadata"]["name"], pod["metadata"]["uid"])

    def _poll_trainers(self) -> None:
        while not self._stop.is_set():
            started = time.monotonic()
            for trainer in list(self._trainers.values()):
                status = trainer.status()
                if status is not None:
                    self.samples.append(sample(time.monotonic(), trainer.name, trainer.uid, status))
            self._stop.wait(max(0.0, self.poll_seconds - (time.monotonic() - started)))


def sample(at: float, pod: str, uid: str, status: dict[str, Any]) -> Sample:
    """Return one /status (api.md, HTTP of a trainer pod) as a sample."""
    return Sample(
        at=at,
        pod=pod,
        uid=uid,
        phase=str(status.get("phase", "")),
        step=status.get("step"),
        total_steps=status.get("totalSteps"),
        loss=status.get("loss"),
        steps_per_second=status.get("stepsPerSecond"),
        restarts=int(status.get("restarts") or 0),
        updated=str(status.get("updatedAt", "")),
        checkpoint_step=status.get("lastCheckpointStep"),
    )


def _replica(pod: dict[str, Any]) -> tuple[str, int]:
    labels = pod["metadata"].get("labels", {})
    return labels.get("dtj.dev/role", ""), int(labels.get("dtj.dev/index", 0))
