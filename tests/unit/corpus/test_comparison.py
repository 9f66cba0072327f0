"""When what a job trained counts as what Keras trained."""

from dataclasses import replace

import numpy as np
import pytest

from tests.corpus.catalogue import programs
from tests.corpus.comparison import deviation
from tests.corpus.jobs import Middle, judge

WANTED = {
    "trained|model|0": np.ones((4, 4)),
    "state|model|1": np.zeros(2),
    "history|history|loss": np.array([2.0, 1.0]),
    "history|history|accuracy": np.array([0.5, 0.75]),
    "steps|history": np.array(20.0),
    "value|scores|": np.array([1.0, 0.5]),
}
PLAIN = replace(programs(["embedding_classifier"])[0], band=None)
"""Any program that claims equality."""


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (WANTED, "equal"),
        (WANTED | {"trained|model|0": np.full((4, 4), 1.00005)}, "equal"),
        (WANTED | {"trained|model|0": np.full((4, 4), 1.001)}, "differs"),
        (WANTED | {"trained|model|0": np.full((4, 4), np.nan)}, "differs"),
        (WANTED | {"history|history|loss": np.array([2.0])}, "differs"),
        (WANTED | {"history|history|accuracy": np.array([0.5, 0.7501])}, "equal"),
        ({key: value for key, value in WANTED.items() if key != "value|scores|"}, "differs"),
    ],
)
def test_a_job_is_equal_within_a_ten_thousandth(found, outcome):
    assert judge(PLAIN, deviation(found, WANTED), 1) == outcome


@pytest.mark.parametrize(
    ("replicas", "random", "outcome"), [(1, False, "differs"), (2, False, "in its band"), (1, True, "in its band")]
)
def test_a_band_is_for_several_replicas_or_for_random_numbers(replicas, random, outcome):
    program = replace(PLAIN, band=0.1, random=random)
    found = WANTED | {"history|history|loss": np.array([3.0, 1.05])}
    assert judge(program, deviation(found, WANTED), replicas) == outcome


def test_trainings_are_compared_in_their_order_whatever_their_names():
    renamed = {key.replace("history|history", "history|losses"): value for key, value in WANTED.items()}
    assert deviation(renamed, WANTED).equal


def test_a_job_of_several_trainings_is_killed_in_the_middle_one():
    steps = {f"steps|history[{number}]": np.array(10.0 * number) for number in (1, 2, 3)}
    assert Middle.of(steps) == Middle(training=2, step=10)
