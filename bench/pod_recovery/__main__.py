"""`python -m bench.pod_recovery`: delete pods of a training on a cluster, alternating the operator's and bare ones.

The bare pods run a manually written baseline (baseline.py), and are created again the moment that they are gone.
"""

import argparse
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from statistics import median
from typing import Any

from bench.figures import rounded
from bench.machine import machine
from e2e import chart
from e2e.cluster import binaries, parallel_build, providers
from e2e.cluster.api_client import ApiClient, ApiError, core_path
from e2e.job_monitor import JobMonitor
from e2e.jobs import Variation, manifest, vary
from e2e.recovery import Recovery
from e2e.scenarios.fixtures import Installation, JobNamespace, delete, time_recovery, wait_for_more_steps, wait_for_step

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "build" / "results" / "bench-pod-recovery.json"
KEPT = ROOT / "bench" / "results"
BASELINE = "baseline"
WORKERS = 2
SETTLED_STEPS = 60
"""Steps between two deletions."""


@contextmanager
def start_two_nodes() -> Iterator[Installation]:
    """Start a cluster with two nodes and the operator installed."""
    images = parallel_build.build_images_beside(*binaries.CLUSTER, "helm")
    made = providers.up("embedded", "recovery", nodes=2, images=images.archives)
    try:
        chart.install(made, images.operator)
        yield Installation(made, ApiClient(made.kubeconfig), images.operator, images.trainer)
    finally:
        made.down()


class BarePods:
    """Two bare pods and a headless service."""

    def __init__(self, installation: Installation, namespace: str) -> None:
        self._installation, self._pods = installation, core_path(namespace, "pods")
        installation.api.post(core_path(namespace, "services"), service())
        self._bodies = [pod(index, installation.trainer_image, namespace) for index in range(WORKERS)]
        for body in self._bodies:
            installation.api.post(self._pods, body)
        self.monitor = JobMonitor(installation.api, namespace, BASELINE)

    def delete_and_recreate(self, index: int) -> Callable[[], float]:
        """Return a function that deletes a pod and creates it again as soon as it is gone."""

        def disturb() -> float:
            at = delete(self._installation, self._bodies[index])()
            threading.Thread(target=self._renew, args=(self._bodies[index],), daemon=True).start()
            return at

        return disturb

    def _renew(self, body: dict[str, Any]) -> None:
        while True:
            try:
                self._installation.api.post(self._pods, body)
            except ApiError as refused:
                if refused.code != HTTPStatus.CONFLICT:  # with the old one, which is there still
                    raise
                time.sleep(0.05)
            else:
                return

    def end(self) -> None:
        for body in self._bodies:
            self._installation.api.delete(f"{self._pods}/{body['metadata']['name']}", gracePeriodSeconds="0")


def service() -> dict[str, Any]:
    return {
        "metadata": {"name": BASELINE},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"dtj.dev/job-name": BASELINE}},
    }


def pod(index: int, image: str, namespace: str) -> dict[str, Any]:
    """Return the pod of the example's job, with the baseline's program and what the operator would add."""
    job = vary(manifest(), Variation(image, name=BASELINE))
    template: dict[str, Any] = job["spec"]["replicaSpecs"]["worker"]["template"]["spec"]
    addresses = [f"{BASELINE}-worker-{each}.{BASELINE}:2222" for each in range(WORKERS)]
    task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    del template["containers"][0]["readinessProbe"]
    template["containers"][0] |= {
        "command": ["python3", "-c", Path(__file__).with_name("baseline.py").read_text()],
        "args": [],
        "env": [
            {"name": "TF_CONFIG", "value": json.dumps(task)},
            {"name": "BENCH_CHECKPOINTS", "value": "/checkpoints/baseline"},
            {"name": "GRPC_FAIL_FAST", "value": "use_caller"},
        ],
        "volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints"}],
    }
    name = f"{BASELINE}-worker-{index}"
    labels = {"dtj.dev/job-name": BASELINE, "dtj.dev/role": "worker", "dtj.dev/index": f"{index}"}
    volumes = [{"name": "checkpoints", "persistentVolumeClaim": {"claimName": "checkpoints"}}]
    spec = {**template, "hostname": name, "subdomain": BASELINE, "volumes": volumes, "restartPolicy": "Never"}
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec}


def recoveries(
    monitor: JobMonitor, delete_and_recreate: Callable[[int], Callable[[], float]], times: int
) -> Iterator[Recovery]:
    """Delete one pod after the other, and time until all workers train again."""
    wait_for_step(monitor, WORKERS, step=SETTLED_STEPS)
    for number in range(times):
        yield time_recovery(monitor, delete_and_recreate((number + 1) % WORKERS))
        wait_for_more_steps(monitor, WORKERS, SETTLED_STEPS)


def measure(rounds: int, times: int) -> dict[str, Any]:
    """Measure `rounds` rounds, each with `times` deletions of the baseline's pods and of the operator's."""
    baseline: list[float] = []
    seconds: list[float] = []
    leaving: list[float] = []
    with start_two_nodes() as installation:
        for number in range(rounds):
            namespace = f"pod-recovery-{number}"
            installation.cluster.shared_volume(namespace, "checkpoints")
            bare = BarePods(installation, namespace)
            with bare.monitor as monitor:
                baseline += [each.all_train for each in recoveries(monitor, bare.delete_and_recreate, times)]
            bare.end()
            job_namespace = JobNamespace(installation, namespace, None)
            job, _ = job_namespace.run(epochs=1000)
            with job_namespace.monitor(job) as monitor:

                def delete_and_recreate(index: int, monitor: JobMonitor = monitor) -> Callable[[], float]:
                    return delete(installation, monitor.refresh().pods[index])

                found = list(recoveries(monitor, delete_and_recreate, times))
            job.delete()
            seconds += [each.all_train for each in found]
            leaving += [each.leaving for each in found]
    without = [all_of_it - saving for all_of_it, saving in zip(seconds, leaving, strict=True)]
    return {
        "by_hand_seconds": baseline,
        "operator_seconds": seconds,
        "operator_leaving_seconds": leaving,
        "by_hand_best": min(baseline),
        "by_hand_median": median(baseline),
        "operator_median": median(seconds),
        "operator_without_leaving_median": median(without),
        "ratio": median(seconds) / median(baseline),
        "ratio_without_leaving": median(without) / median(baseline),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--times", type=int, default=4, help="deletions in a round, of each side")
    options.add_argument("--keep", action="store_true", help="also write the figures to bench/results")
    given = options.parse_args()
    job_namespace = {"date": f"{datetime.now(UTC):%Y-%m-%d %H:%M}", **machine(), "load": os.getloadavg()[0]}
    text = json.dumps(rounded({**job_namespace, **measure(given.rounds, given.times)}, 3), indent=2) + "\n"
    print(text)
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(text)
    if given.keep:
        (KEPT / f"pod-recovery-{datetime.now(UTC):%Y-%m-%d}.json").write_text(text)


if __name__ == "__main__":
    main()
