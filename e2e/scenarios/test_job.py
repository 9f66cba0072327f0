"""A job from `kubectl apply` to Succeeded, and what is left when it is deleted."""

import time

import pytest

from e2e.api import core_path, jobs_path
from e2e.jobs import termination
from e2e.scenarios.fixtures import Place, Record, training, until

pytestmark = [pytest.mark.e2e, pytest.mark.alone]


def test_job_runs_to_succeeded(place: Place, record_property: Record) -> None:
    began = time.monotonic()
    job, variation = place.run(epochs=5)
    with place.watch(job) as watcher:
        training(watcher, 2)
        record_property("first_step_seconds", round(time.monotonic() - began, 2))
        nodes = {pod["spec"]["nodeName"] for pod in watcher.world.pods}
        until(lambda: job.status().get("workers") == "2/2", 20, "status.workers 2/2 while both train")
    status = job.succeeded(90)

    assert len(nodes) == 2
    assert status["strategy"]["type"] == "MultiWorkerMirrored"
    assert status["restarts"]["total"] == 0
    assert status["progress"]["step"] == variation.expected_steps
    assert status["progress"]["metrics"]["val_accuracy"] >= 0.95
    first = next(pod for pod in job.pods() if pod["metadata"]["name"] == "digits-worker-0")
    assert termination(first)["class"] == "done"
    assert place.checkpoints is None or (place.checkpoints / "done.json").exists()


def test_deleted_job_leaves_nothing(place: Place) -> None:
    """Deleted in mid-training: pods and service go with it, the claim stays."""
    job, _ = place.run(name="deleted", epochs=60)
    with place.watch(job) as watcher:
        training(watcher, 2, step=20)
    job.delete()

    selector = "dtj.dev/job-name=deleted"
    api, namespace = place.ground.api, place.namespace
    until(lambda: api.find(jobs_path(namespace, "deleted")) is None, 30, "the job gone")
    until(
        lambda: (
            not api.items(core_path(namespace, "pods"), labelSelector=selector)
            and not api.items(core_path(namespace, "services"), labelSelector=selector)
        ),
        45,
        "its pods and its service gone",
    )
    assert api.find(core_path(namespace, "persistentvolumeclaims", "checkpoints")) is not None
