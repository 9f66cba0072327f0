"""Worker pods deleted during training."""

import pytest

from e2e.scenarios.fixtures import JobNamespace, Record, delete, time_recovery, wait_for_more_steps, wait_for_step

pytestmark = [pytest.mark.e2e, pytest.mark.alone]


def test_worker_pod_deleted_is_replaced_and_all_train_again(
    job_namespace: JobNamespace, record_property: Record
) -> None:
    job, variation = job_namespace.run(epochs=6)
    seconds, leaving = [], []
    with job_namespace.monitor(job) as monitor:
        wait_for_step(monitor, 2, step=100)
        for index in (1, 0):
            before = monitor.refresh().pods[index]
            back = time_recovery(monitor, delete(job_namespace.installation, before))
            seconds.append(round(back.all_train, 3))
            leaving.append(round(back.leaving, 3))  # the grace that was used for saving
            after = monitor.refresh().pods[index]
            assert after["metadata"]["uid"] != before["metadata"]["uid"]
            wait_for_more_steps(monitor, 2, steps=50)
    record_property("recovery_seconds", seconds)
    record_property("leaving_seconds", leaving)
    status = job.succeeded(120)

    assert status["progress"]["step"] == variation.expected_steps
    assert status["restarts"]["total"] == 2
    assert status["restarts"].get("charged", 0) == 0
    assert max(seconds) < 25.0, seconds  # the figure is recorded; this is below the grace period of a pod that hangs
