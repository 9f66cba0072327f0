"""Worker pods deleted by hand in mid-training."""

import pytest

from e2e.scenarios.fixtures import Place, Record, delete, time_recovery, training, training_on

pytestmark = [pytest.mark.e2e, pytest.mark.alone]


def test_worker_pod_deleted_is_replaced_and_all_train_again(place: Place, record_property: Record) -> None:
    job, variation = place.run(epochs=6)
    seconds, leaving = [], []
    with place.watch(job) as watcher:
        training(watcher, 2, step=100)
        for index in (1, 0):
            before = watcher.look().pods[index]
            back = time_recovery(watcher, delete(place.ground, before))
            seconds.append(round(back.all_train, 3))
            leaving.append(round(back.leaving, 3))  # the grace that was used for saving
            after = watcher.look().pods[index]
            assert after["metadata"]["uid"] != before["metadata"]["uid"]
            training_on(watcher, 2, steps=50)
    record_property("recovery_seconds", seconds)
    record_property("leaving_seconds", leaving)
    status = job.succeeded(120)

    assert status["progress"]["step"] == variation.expected_steps
    assert status["restarts"]["total"] == 2
    assert status["restarts"].get("charged", 0) == 0
    assert max(seconds) < 25.0, seconds  # the figure is recorded; this is below the grace period of a pod that hangs
