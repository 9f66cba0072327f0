"""Batched data of every kind that Keras takes trains as in Keras, on one worker and on two, killed and resumed."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.trainer.training import launch

pytestmark = pytest.mark.trainer

PROGRAM = str(Path(__file__).parent / "programs" / "batched.py")


@cache
def by_keras(kind):
    """What Keras' own fit gives, in one process."""
    return launch.run(PROGRAM, environment={"TEST_KIND": kind, "TEST_PLAIN": "1"}).said


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "kind",
    [
        "PyDataset",
        "PyDataset in processes",
        "generator",
        "DataLoader",
        "Dataset",
        "class weights",
    ],
)
def test_it_trains_as_in_keras_also_when_killed_and_resumed(kind, workers, tmp_path):
    environment = {"TEST_KIND": kind, **launch.checkpoint(tmp_path, everySteps=4)}
    doomed = launch.run_workers(workers, PROGRAM, environment={**environment, "TEST_DIE_AT": "10"})
    assert -9 in [each.code for each in doomed], doomed[0].output
    for ended in launch.run_workers(workers, PROGRAM, environment=environment):
        np.testing.assert_allclose(ended.said["weights"], by_keras(kind)["weights"], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(ended.said["losses"], by_keras(kind)["losses"], rtol=1e-4, atol=1e-5)


def test_generators_that_differ_between_the_workers_are_refused(tmp_path):
    processes = launch.run_workers(2, PROGRAM, environment={"TEST_KIND": "generator", "TEST_RANK_SEEDS": "1"})
    assert processes[1].code == 1
    assert "x, a generator, gives other batches in this process than in the chief" in processes[1].exit_line


@pytest.mark.parametrize(
    ("kind", "passes"), [("Dataset", False), ("unseeded", False), ("large", True), ("in Python", True)]
)
def test_a_dataset_goes_on_from_the_state_of_its_iterator_where_there_is_one(kind, passes, tmp_path):
    environment = {"TEST_KIND": kind, **launch.checkpoint(tmp_path, everySteps=4)}
    launch.run(PROGRAM, environment={**environment, "TEST_DIE_AT": "10"})
    ended = launch.run(PROGRAM, environment=environment)
    assert ended.code == 0
    assert ("batches that are trained already" in ended.output) == passes


def test_a_restart_does_not_count_the_batches_of_a_dataset_again(tmp_path):
    environment = {"TEST_KIND": "Dataset that is counted", "DTJ_UID": "u", **launch.checkpoint(tmp_path)}
    first = launch.run(PROGRAM, environment=environment)
    assert first.said["step"] == 18
    assert first.said["opened"] > 3
    (tmp_path / "done.json").unlink(missing_ok=True)
    assert launch.run(PROGRAM, environment=environment).said["opened"] == 0  # the training is passed through


@pytest.mark.parametrize("settings", [{}, {"TEST_BY_BATCH": "1"}], ids=["several steps a call", "step by step"])
@pytest.mark.parametrize("workers", [1, 2])
def test_one_epoch_of_a_generator_lasts_until_its_end(workers, settings, tmp_path):
    environment = {"TEST_KIND": "finite generator", **settings}
    for ended in launch.run_workers(workers, PROGRAM, environment=environment):
        assert ended.said["step"] == 6
        np.testing.assert_allclose(ended.said["weights"], by_keras("finite generator")["weights"], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(ended.said["losses"], by_keras("finite generator")["losses"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("workers", [1, 2])
def test_where_a_generator_ends_its_epoch_ends_short_and_the_training_too_with_one_warning(workers, tmp_path):
    """Keras goes on with the first two batches, which it has kept; these are not trained again here."""
    environment = {"TEST_KIND": "generator of 12 batches", **launch.checkpoint(tmp_path, everySteps=4)}
    launch.run_workers(workers, PROGRAM, environment={**environment, "TEST_DIE_AT": "10"})
    for ended in launch.run_workers(workers, PROGRAM, environment=environment):
        assert ended.said["step"] == 12
        assert len(ended.said["losses"]) == 3
        assert ended.output.count("x ended after 12 batches, and with it the training; ") == 1


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kind", ["Dataset that filters", "Dataset from Python"])
def test_where_a_dataset_ends_its_epoch_ends_short_and_the_next_begins_it_again(kind, workers, tmp_path):
    """Epochs of 4 batches, of data that has 6."""
    environment = {"TEST_KIND": kind, **launch.checkpoint(tmp_path, everySteps=3)}
    launch.run_workers(workers, PROGRAM, environment={**environment, "TEST_DIE_AT": "8"})
    for ended in launch.run_workers(workers, PROGRAM, environment=environment):
        assert ended.said["step"] == 10
        np.testing.assert_allclose(ended.said["weights"], by_keras(kind)["weights"], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(ended.said["losses"], by_keras(kind)["losses"], rtol=1e-4, atol=1e-5)
