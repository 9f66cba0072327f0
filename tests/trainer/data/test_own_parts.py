"""fn(ctx): each worker has data of its own, and not equally much of it."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.trainer.training import launch

pytestmark = pytest.mark.trainer

PROGRAM = str(Path(__file__).parent / "programs" / "own_parts.py")


@pytest.mark.parametrize("sizes", [[[8] * 5, [8] * 2], [[8] * 5, [3, 5]]], ids=["fewer batches", "smaller batches"])
def test_a_worker_with_less_data_begins_again_and_each_example_of_a_step_counts_the_same(sizes):
    environment = {"TEST_SIZES": json.dumps(sizes)}
    alone = launch.run(PROGRAM, environment={**environment, "TEST_TOGETHER": "1"}).said
    for ended in launch.run_workers(2, PROGRAM, environment=environment):
        assert ended.said["step"] == 10
        np.testing.assert_allclose(ended.said["weights"], alone["weights"], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(ended.said["logs"]["loss"], alone["logs"]["loss"], rtol=1e-4)


def test_a_worker_without_data_ends_the_job_in_one_sentence():
    chief, worker = launch.run_workers(2, PROGRAM, environment={"TEST_SIZES": "[[8], []]"})
    assert [chief.code, worker.code] == [75, 1]
    assert worker.exit_line.startswith("dtj: the data is empty or ended before the training did; ")


@pytest.mark.parametrize("sizes", [[[4, 4, 4], [2]], [[4], []]], ids=["uneven", "one worker without any"])
def test_a_validation_counts_each_example_of_every_worker_once(sizes):
    environment = {"TEST_SIZES": "[[8], [8]]", "TEST_VALIDATION": json.dumps(sizes)}
    ended = launch.run_workers(2, PROGRAM, environment=environment)
    assert [each.code for each in ended] == [0, 0], ended[0].output
    first, second = (each.said["logs"]["val_loss"] for each in ended)
    assert first == second
    assert np.isfinite(first).all()
