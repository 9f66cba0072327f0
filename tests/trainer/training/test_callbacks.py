"""Callbacks hear of a training what they hear of Keras' own fit."""

import pytest

from tests.trainer.training import launch

pytestmark = pytest.mark.trainer


@pytest.fixture(scope="module")
def said():
    return launch.run("callbacks.py").said


@pytest.mark.matrix
def test_callbacks_are_called_as_keras_fit_calls_them_validation_included(said):
    assert said["ours"] == said["theirs"]
    assert said["ours"][7:14] == [
        "on_train_batch_end 2",
        "on_test_begin",
        "on_test_batch_begin 0",
        "on_test_batch_end 0",
        "on_test_batch_begin 1",
        "on_test_batch_end 1",
        "on_test_batch_begin 2",
    ]
    assert len(said["found"]["ours"]) == 8
    for ours, theirs in zip(said["found"]["ours"], said["found"]["theirs"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)
    assert [dict(sorted(each.items())) for each in said["found"]["quiet"]] == [
        pytest.approx(each, rel=1e-5) for each in said["found"]["theirs"][3::4]
    ]


def test_the_end_of_a_batch_tells_all_metrics_so_far_as_in_keras_fit(said):
    assert len(said["trained"]["ours"]) == 6
    for ours, theirs in zip(said["trained"]["ours"], said["trained"]["theirs"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)


@pytest.mark.matrix
def test_what_a_callback_evaluates_is_in_no_metric_of_the_next_epoch_as_in_keras_fit(said):
    assert said["evaluates"]["ours"] == pytest.approx(said["evaluates"]["theirs"], rel=1e-5)


def test_a_validation_that_a_callback_stops_ends_there_as_in_keras_fit(said):
    assert len(said["hasty"]["ours"]) == 2
    for ours, theirs in zip(said["hasty"]["ours"], said["hasty"]["theirs"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)
    assert said["hasty"]["ours"][0] != pytest.approx(said["found"]["ours"][3], rel=1e-3)


def test_each_worker_hears_of_its_own_batches_and_of_the_whole_validation_at_its_end(said):
    wanted = said["found"]["ours"]
    both = [worker.said["found"]["ours"] for worker in launch.run_workers(2, "callbacks.py")]
    for found in both:
        assert found[3::4] == [pytest.approx(each, rel=1e-5) for each in wanted[3::4]]
    assert both[0][0]["loss"] != pytest.approx(both[1][0]["loss"], rel=1e-5)
    mean = (both[0][0]["loss"] + both[1][0]["loss"]) / 2
    assert mean == pytest.approx(wanted[0]["loss"], rel=1e-5)


def test_the_chief_alone_writes_keras_own_files_and_waits_for_nobody(tmp_path):
    ended = launch.run_workers(2, "saves.py", str(tmp_path))
    assert [each.code for each in ended] == [0, 0], "".join(each.output for each in ended)
    files = {"epoch.keras", "best.weights.h5", "batch.keras", "end.keras", "end.weights.h5"}
    assert {each.name for each in tmp_path.iterdir()} == files
    assert ended[0].said == {"epoch.keras": pytest.approx(0, abs=1e-6), "end.keras": 0}
