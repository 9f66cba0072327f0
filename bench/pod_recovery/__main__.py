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
from e2e.api import Api, Refused, core_path
from e2e.cluster import binaries, parallel_build, providers
from e2e.job_monitor import Watcher
from e2e.jobs import Variation, manifest, vary
from e2e.recovery import Recovery
from e2e.scenarios.fixtures import Ground, Place, delete, time_recovery, training, training_on

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "build" / "results" / "bench-pod-recovery.json"
KEPT = ROOT / "bench" / "results"
BASELINE = "baseline"
WORKERS = 2
SETTLED_STEPS = 60
"""Steps between two deletions."""


@contextmanager
def two_nodes() -> Iterator[Ground]:
    """Start a cluster with two nodes and the operator installed."""
    images = parallel_build.images_and(*binaries.CLUSTER, "helm")
    made = providers.up("embedded", "recovery", nodes=2, images=images.archives)
    try:
        chart.install(made, images.operator)
        yield Ground(made, Api(made.kubeconfig), images.trainer)
    finally:
        made.down()


class BarePods:
    """Two bare pods and a headless service."""

    def __init__(self, ground: Ground, namespace: str) -> None:
        self._ground, self._pods = ground, core_path(namespace, "pods")
        ground.api.post(core_path(namespace, "services"), service())
        self._bodies = [pod(index, ground.trainer_image, namespace) for index in range(WORKERS)]
        for body in self._bodies:
            ground.api.post(self._pods, body)
        self.watcher = Watcher(ground.api, namespace, BASELINE)

    def delete_and_recreate(self, index: int) -> Callable[[], float]:
        """Return a function that deletes a pod and creates it again as soon as it is gone."""

        def disturb() -> float:
            at = delete(self._ground, self._bodies[index])()
            threading.Thread(target=self._renew, args=(self._bodies[index],), daemon=True).start()
            return at

        return disturb

    def _renew(self, body: dict[str, Any]) -> None:
        while True:
            try:
                self._ground.api.post(self._pods, body)
            except Refused as refused:
                if refused.code != HTTPStatus.CONFLICT:  # with the old one, which is there still
                    raise
                time.sleep(0.05)
            else:
                return

    def end(self) -> None:
        for body in self._bodies:
            self._ground.api.delete(f"{self._pods}/{body['metadata']['name']}", gracePeriodSeconds="0")


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
    watcher: Watcher, delete_and_recreate: Callable[[int], Callable[[], float]], times: int
) -> Iterator[Recovery]:
    """Delete one pod after the other, and time until all workers train again."""
    training(watcher, WORKERS, step=SETTLED_STEPS)
    for number in range(times):
        yield time_recovery(watcher, delete_and_recreate((number + 1) % WORKERS))
        training_on(watcher, WORKERS, SETTLED_STEPS)


def measure(rounds: int, times: int) -> dict[str, Any]:
    """Measure `rounds` rounds, each with `times` deletions of the baseline's pods and of the operator's."""
    baseline: list[float] = []
    seconds: list[float] = []
    leaving: list[float] = []
    with two_nodes() as ground:
        for number in range(rounds):
            namespace = f"pod-recovery-{number}"
            ground.cluster.shared_volume(namespace, "checkpoints")
            bare = BarePods(ground, namespace)
            with bare.watcher as watcher:
                baseline += [each.all_train for each in recoveries(watcher, bare.delete_and_recreate, times)]
            bare.end()
            place = Place(ground, namespace, None)
            job, _ = place.run(epochs=1000)
            with place.watch(job) as watcher:

                def delete_and_recreate(index: int, watcher: Watcher = watcher) -> Callable[[], float]:
                    return delete(ground, watcher.look().pods[index])

                found = list(recoveries(watcher, delete_and_recreate, times))
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
    place = {"date": f"{datetime.now(UTC):%Y-%m-%d %H:%M}", **machine(), "load": os.getloadavg()[0]}
    text = json.dumps(rounded({**place, **measure(given.rounds, given.times)}, 3), indent=2) + "\n"
    print(text)
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(text)
    if given.keep:
        (KEPT / f"pod-recovery-{datetime.now(UTC):%Y-%m-%d}.json").write_text(text)


if __name__ == "__main__":
    main()
