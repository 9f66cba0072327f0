"""Jobs that do all that alerts and dashboard are about, and a real Prometheus that looks at them.

The operator works on an API server; the processes of two pods run here, each behind a loopback address that is its
pod's. Prometheus relabels their targets by the scrape config of the docs; what it discovers is written here, as that of
Debian has no discovery in Kubernetes. Windows and times of the alerts are seconds instead of minutes, and counts are
smaller; tests/unit/chart/test_alerts.py has the real ones.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from e2e.cluster import forward
from e2e.cluster.control_plane import ControlPlane
from tests.contract.operator_under_test import Jobs, operator
from tests.support import monitoring, source_roots
from tests.support.chart import RIGHTS, apply
from tests.support.ports import free_port
from tests.support.prometheus_process import Prometheus, running

PROGRAMS: Final = Path(__file__).parent / "programs"
TARGETS: Final = "targets.json"
WINDOW: Final = "10s"
PATIENCE: Final = 45.0
SLOW: Final = ("--workers=1", "--kube-api-qps=25", "--kube-api-burst=5")
"""Flags of an operator that needs seconds for many new jobs, and not for few."""
BINDING: Final = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/dtj-operator"


@dataclass
class Trainer:
    """A `dtj-run` that stands for the main container of a pod."""

    process: subprocess.Popen[bytes]
    environment: dict[str, str]
    termination: Path


@dataclass
class Scene:
    """The jobs, the processes of their pods, and the Prometheus that looks at them."""

    jobs: Jobs
    folder: Path
    prometheus: Prometheus
    stack: ExitStack
    fired: set[str] = field(default_factory=set)

    def wait_for(self, *alerts: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Wait until the alerts have fired, in any order. What does not come is left to the tests."""
        deadline = time.monotonic() + PATIENCE
        while not self.fired.issuperset(alerts) and time.monotonic() < deadline:
            meanwhile()
            time.sleep(0.2)
            self.fired |= self.prometheus.firing()

    def run(self, pod: str, address: str, *arguments: str) -> Trainer:
        """Run dtj-run with the environment of the pod's main container, and report the pod as ready at that address."""
        main = self.jobs.pods()[pod]["spec"]["containers"][0]
        port, termination = free_port(), self.folder / f"{pod}.termination"
        own = {name: value for name, value in os.environ.items() if not name.startswith(("DTJ_", "TF_"))}
        environment = {
            **own,
            **{each["name"]: each["value"] for each in main["env"]},
            "PYTHONPATH": source_roots.TRAINER,
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "CUDA_VISIBLE_DEVICES": "-1",
            "DTJ_PORT": str(port),
            "DTJ_TERMINATION_LOG": str(termination),
        }
        process = self.stack.enter_context(
            _process(self.folder / f"{pod}.log", environment, "-m", "dtj_trainer", *arguments)
        )
        listening = self.stack.enter_context(socket.create_server((address, 9401)))
        self.stack.enter_context(
            _process(
                self.folder / f"{pod}.forward", own, forward.__file__, str(listening.fileno()), "127.0.0.1", str(port),
                descriptor=listening.fileno(),
            )
        )  # fmt: skip
        self.start(pod, address)
        self.discover()
        return Trainer(process, environment, termination)

    def start(self, pod: str, address: str = "127.0.0.9") -> None:
        """Report a pod as Ready, as a kubelet does."""
        ready = {"type": "Ready", "status": "True"}
        status = {"phase": "Running", "conditions": [ready], "podIP": address, "podIPs": [{"ip": address}]}
        self.jobs.api.patch(f"/api/v1/namespaces/{self.jobs.namespace}/pods/{pod}/status", {"status": status})

    def discover(self) -> None:
        """Tell Prometheus of all pods, as its own discovery does."""
        targets = [target for pod in self.jobs.pods().values() for target in monitoring.targets(pod)]
        (self.folder / TARGETS).write_text(json.dumps(targets))

    def fail(self, job: str, code: int) -> None:
        """Start worker 0 of a job, and end it with that code."""
        pod = f"{job}-worker-0"

        def waits() -> bool:
            found = self.jobs.pods().get(pod)
            return (
                found is not None
                and found["status"]["phase"] == "Pending"
                and not found["metadata"].get("deletionTimestamp")
            )

        self.jobs.until(waits, f"a new {pod}")
        self.start(pod)
        self.jobs.until(lambda: self.jobs.holds(job, "Running"), f"{job} that runs")
        self.jobs.end_pod(pod, code)


@contextmanager
def _process(
    log: Path, environment: dict[str, str], *arguments: str, descriptor: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    fds = () if descriptor is None else (descriptor,)
    with log.open("wb") as output, subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=output, stderr=output, pass_fds=fds
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def _config(folder: Path, metrics: int) -> dict[str, Any]:
    """Return the scrape configs of the docs, for an operator outside of the cluster and for targets in a file."""
    trainers = monitoring.scrape_configs()["dtj-trainer"]
    del trainers["kubernetes_sd_configs"]
    own = {"job_name": "dtj-operator", "static_configs": [{"targets": [f"127.0.0.1:{metrics}"]}], "honor_labels": True}
    every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    configs = [own, trainers | {"file_sd_configs": [{"files": [str(folder / TARGETS)]}]}]
    return {"global": every, "scrape_configs": configs}


@contextmanager
def monitored(control_plane: ControlPlane, account: Path, folder: Path) -> Iterator[Scene]:
    """Let everything happen that an alert is about, and yield what Prometheus has recorded."""
    jobs, port = Jobs(control_plane, "monitored"), free_port()
    with ExitStack() as stack:
        prometheus = stack.enter_context(running(folder, _config(folder, port), monitoring.quick_alerts(WINDOW)))
        scene = Scene(jobs, folder, prometheus, stack)
        here = (f"--metrics-bind-address=127.0.0.1:{port}", f"--namespace={jobs.namespace}")
        with operator(account, *here, *SLOW) as process:
            jobs.until(lambda: bool(prometheus.history("leader_election_master_status == 1")), "a leader")
            _create_jobs(scene)
            _train(scene)
            _wait_in_the_queue(scene, process)
            _lose_rights(scene, control_plane)
        scene.wait_for("DtjOperatorDown")
        yield scene
        jobs.delete_all()


def _create_jobs(scene: Scene) -> None:
    jobs = scene.jobs
    once = {"maxRestarts": 0}
    often = {"maxRestarts": 100, "backoff": {"initialSeconds": 0, "maxSeconds": 1}}
    for name in ("waiting", "idle"):
        jobs.create(name, worker=1, scheduler="nobody")
    jobs.create("unlucky", worker=1, scheduler="nobody", failurePolicy=often)
    for number in range(3):
        jobs.create(f"broken-{number}", worker=1, scheduler="nobody", failurePolicy=once)
    # A sidecar, and ports that are not 9401: still one target.
    main = {
        "name": "tensorflow",
        "image": "example.org/train:1",
        "ports": [{"containerPort": 2222}, {"containerPort": 80}],
    }
    template = {
        "spec": {"schedulerName": "nobody", "containers": [main, {"name": "proxy", "image": "example.org/proxy:1"}]}
    }
    jobs.create_spec(
        "train",
        {
            "replicaSpecs": {"worker": {"template": template}},
            "checkpoint": {"directory": str(scene.folder / "checkpoints"), "everySeconds": 3600},
        },
    )
    jobs.until(lambda: {"train-worker-0", "idle-worker-0", "broken-2-worker-0"} <= jobs.pods().keys(), "pods")


def _train(scene: Scene) -> None:
    jobs, hangs = scene.jobs, scene.folder / "hangs"
    trainer = scene.run(
        "train-worker-0",
        "127.0.0.2",
        "--stall-seconds=1",
        "--restarts=1000",
        str(PROGRAMS / "slow_data.py"),
        str(hangs),
    )
    scene.run("idle-worker-0", "127.0.0.3", "--preload=off", str(PROGRAMS / "idle.py"))
    for number in range(3):
        scene.fail(f"broken-{number}", 1)
    for _ in range(4):
        scene.fail("unlucky", 137)
        time.sleep(1)
    scene.wait_for(
        "DtjJobNotStarting", "DtjJobRestarting", "DtjManyJobsFail", "DtjManyRestarts", "DtjTrainingWithoutSteps"
    )
    jobs.until(lambda: bool(scene.prometheus.history('dtj_steps_total{name="train"} > 0')), "steps")
    ask = [sys.executable, "-m", "dtj_trainer", "checkpoint"]
    subprocess.run(ask, env=trainer.environment, check=True, capture_output=True)
    scene.wait_for("DtjDataSlow", "DtjCheckpointsStopped")
    hangs.touch()
    scene.wait_for("DtjTrainingStalls", "DtjRestartsInPlace")
    hangs.unlink()
    trainer.process.send_signal(signal.SIGTERM)
    code = trainer.process.wait(PATIENCE)
    jobs.end_pod("train-worker-0", code, trainer.termination.read_text())


def _wait_in_the_queue(scene: Scene, process: subprocess.Popen[bytes]) -> None:
    """Let the operator see many new jobs at once."""
    process.send_signal(signal.SIGSTOP)
    for number in range(60):
        scene.jobs.create(f"many-{number}", worker=1, suspend=True)
    process.send_signal(signal.SIGCONT)
    scene.wait_for("DtjOperatorSlow")


def _lose_rights(scene: Scene, control_plane: ControlPlane) -> None:
    """Take the operator's rights away while jobs change."""
    control_plane.api.delete(BINDING)
    turn = iter(range(1_000_000))
    try:
        scene.wait_for(
            "DtjOperatorErrors",
            "DtjOperatorRequestsFail",
            meanwhile=lambda: scene.jobs.edit("many-0", suspend=next(turn) % 2 == 1),
        )
    finally:
        apply(control_plane, kinds=RIGHTS)
