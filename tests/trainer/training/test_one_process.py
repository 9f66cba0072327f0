"""A program written for one process gives the same weights, history and results on any number of replicas."""

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.trainer.training import launch

pytestmark = pytest.mark.trainer

PROGRAM = "one_process.py"
CASES = (
    "arrays", "sample_weights", "class_weights", "short_epochs", "dataset", "fewer_examples_than_replicas",
    "sum_of_losses", "gradient_accumulation_steps", "gradient_accumulation_steps_clipped",
    "averages_that_overwrite", "embedding",
    "masked_loss", "evaluation_stopped_by_the_chief", "weighted_mean", "positions", "positions_of_each_example",
    "positions_accumulated", "sparse", "ragged", "two_inputs", "two_outputs", "two_outputs_accumulated",
    "own_step_of_two_outputs", "added_losses", "endpoint_layer", "two_phases", "keras_callbacks",
    "callback_uses_the_model", "own_methods_afterwards", "fitted_again", "own_step", "own_step_of_two_optimizers",
    "evaluated_and_predicted",
)  # fmt: skip
OF_THREE_WORKERS = (
    "fewer_examples_than_replicas", "embedding", "positions", "sparse", "ragged", "evaluated_and_predicted",
)  # fmt: skip
"""Where replicas have gradients of different shapes, or one of them has no example."""
LAST_STEPS = {"judged", "made"}
"""What Keras counts once a batch, whatever its examples: means over replicas are not exactly those of one process."""


def said(replicas: str, case: str) -> dict[str, Any]:
    half = CASES.index(case) * 2 // len(CASES)
    found: dict[str, Any] = said_of_half(replicas, half)[case]
    return found


@cache
def said_of_half(replicas: str, half: int) -> dict[str, Any]:
    cases = [case for number, case in enumerate(CASES) if number * 2 // len(CASES) == half]
    if replicas == "keras":
        return launch.run(PROGRAM, "keras", *cases).said
    if replicas == "one":
        return launch.run(PROGRAM, "dtj", *cases).said
    if replicas == "three devices":
        return launch.run(PROGRAM, "dtj", *cases, environment={"DTJ_LOGICAL_DEVICES": "3"}).said
    chief, other = launch.run_workers(2, PROGRAM, "dtj", *cases)
    assert other.code == 0, other.output
    assert {name: each["weights"] for name, each in other.said.items()} == {
        name: each["weights"] for name, each in chief.said.items()
    }
    return chief.said


@pytest.mark.parametrize("replicas", ["one", "three devices", "two workers"])
@pytest.mark.parametrize("case", CASES)
def test_a_program_for_one_process_trains_the_same_on_any_replicas(case, replicas):
    assert_same(said(replicas, case), said("keras", case), one=replicas == "one")


def test_three_workers_of_which_one_may_have_no_example_train_the_same():
    workers = launch.run_workers(3, PROGRAM, "dtj", *OF_THREE_WORKERS)
    assert [each.code for each in workers] == [0, 0, 0], workers[0].output
    for case in OF_THREE_WORKERS:
        for worker in workers:
            assert_same(worker.said[case], said("keras", case), one=False)


@pytest.mark.parametrize("strategy", ["Mirrored", "MultiWorkerMirrored"])
def test_a_strategy_of_replicas_that_has_one_trains_and_shows_the_same(strategy):
    """As a job of workers that is scaled to one."""
    cases = ("callback_uses_the_model", "own_methods_afterwards", "fitted_again", "two_phases")
    environment = {"DTJ_STRATEGY": json.dumps({"type": strategy})}
    (alone,) = launch.run_workers(1, PROGRAM, "dtj", *cases, environment=environment)
    for case in cases:
        assert_same(alone.said[case], said("keras", case), one=True)


def assert_same(found, wanted, *, one):
    norm = np.linalg.norm(wanted["weights"])
    assert np.linalg.norm(np.subtract(found["weights"], wanted["weights"])) <= 1e-5 * norm
    assert found["history"].keys() == wanted["history"].keys()
    for name, values in wanted["history"].items():
        error = 0.05 if name in LAST_STEPS and not one else 1e-4
        assert found["history"][name] == pytest.approx(values, rel=error, abs=1e-6), name
    assert found.get("used", []) == pytest.approx(wanted.get("used", []), rel=1e-4, abs=1e-5)


def test_frozen_weights_stay_bit_for_bit():
    assert all(said(replicas, "two_phases")["frozen"] for replicas in ("keras", "one", "three devices", "two workers"))
