"""A job from `kubectl apply` to Succeeded, and what is left when it is deleted."""

import time

import pytest

from e2e.cluster.api_client import core_path, jobs_path
from e2e.jobs import termination
from e2e.scenarios.fixtures import JobNamespace, Record, wait_for_step, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.alone]


def test_job_runs_to_succeeded(job_namespace: JobNamespace, record_property: Record) -> None:
    began = time.monotonic()
    job, variation = job_namespace.run(epochs=5)
    with job_namespace.monitor(job) as monitor:
        wait_for_step(monitor, 2)
        record_property("first_step_seconds", round(time.monotonic() - began, 2))
        nodes = {pod["spec"]["nodeName"] for pod in monitor.state.pods}
        wait_until(lambda: job.status().get("workers") == "2/2", 20, "status.workers 2/2 while both train")
    status = job.succeeded(90)

    assert len(nodes) == 2
    assert status["strategy"]["type"] == "MultiWorkerMirrored"
    assert status["restarts"]["total"] == 0
    assert status["progress"]["step"] == variation.expected_steps
    assert status["progress"]["metrics"]["val_accuracy"] >= 0.95
    first = next(pod for pod in job.pods() if pod["metadata"]["name"] == "digits-worker-0")
    assert termination(first)["class"] == "done"
    assert job_namespace.checkpoints is None or (job_namespace.checkpoints / "done.json").exists()


def test_deleted_job_leaves_nothing(job_namespace: JobNamespace) -> None:
    """Delete a job during training: pods and service go with it, the claim stays."""
    job, _ = job_namespace.run(name="deleted", epochs=60)
    with job_namespace.monitor(job) as monitor:
        wait_for_step(monitor, 2, step=20)
    job.delete()

    selector = "dtj.dev/job-name=deleted"
    api, namespace = job_namespace.installation.api, job_namespace.name
    wait_until(lambda: api.find(jobs_path(namespace, "deleted")) is None, 30, "the job gone")
    wait_until(
        lambda: (
            not api.items(core_path(namespace, "pods"), labelSelector=selector)
            and not api.items(core_path(namespace, "services"), labelSelector=selector)
        ),
        45,
        "its pods and its service gone",
    )
    assert api.find(core_path(namespace, "persistentvolumeclaims", "checkpoints")) is not None
