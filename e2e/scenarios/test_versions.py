"""Helm changes the operator's version, forward and back, while a job trains."""

from typing import Any

import pytest

from e2e import chart, previous_version
from e2e.cluster.api_client import core_path
from e2e.jobs import Job
from e2e.scenarios.fixtures import JobNamespace, wait_for_more_steps, wait_for_step, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.alone]


def uids(pods: list[dict[str, Any]]) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}


def delete_worker(job_namespace: JobNamespace, job: Job) -> None:
    """Delete worker 1, and wait until the operator has replaced it."""
    name = f"{job.name}-worker-1"
    before = uids(job.pods())[name]
    job_namespace.installation.api.delete(core_path(job_namespace.name, "pods", name))
    wait_until(lambda: uids(job.pods()).get(name, before) != before, 60, f"another pod {name}")


def test_a_job_trains_on_through_an_upgrade_and_a_rollback_of_chart_and_crd(job_namespace: JobNamespace) -> None:
    installation = job_namespace.installation
    previous = previous_version.operator_image()
    installation.cluster.load_image(previous.archive, previous.ref)
    job, variation = job_namespace.run(epochs=30)
    with job_namespace.monitor(job) as monitor:
        try:
            wait_for_step(monitor, 2)
            survivor = uids(job.pods())[f"{job.name}-worker-0"]
            chart.install(installation.cluster, previous.ref, chart=previous_version.CHART)
            wait_for_more_steps(monitor, 2, 20)
            delete_worker(job_namespace, job)
            wait_for_more_steps(monitor, 2, 20)
        finally:
            chart.install(installation.cluster, installation.operator_image)
        wait_for_more_steps(monitor, 2, 20)
        delete_worker(job_namespace, job)
        wait_for_more_steps(monitor, 2, 20)
        status = job.succeeded(240)
    assert status["restarts"]["byCause"] == {"Deleted": 2}
    assert status["restarts"]["charged"] == 0
    assert status["progress"]["step"] == variation.expected_steps
    assert uids(job.pods())[f"{job.name}-worker-0"] == survivor
