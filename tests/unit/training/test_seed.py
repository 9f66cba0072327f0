"""Which generators a training seeds."""

import random
from types import SimpleNamespace
from typing import Any

import pytest

from dtj_trainer.training.run_training import set_seed


def context(seed: int | None = None, *, trained: bool = False) -> Any:
    return SimpleNamespace(seed=seed, training_names=[None] if trained else [])


@pytest.mark.parametrize(
    ("made", "given", "chosen", "seeds"),
    [
        (context(), 0, 0, False),
        (context(), 5, 5, True),
        (context(7), 0, 7, False),
        (context(7), 5, 5, False),
        (context(trained=True), 5, 5, False),
    ],
)
def test_what_the_program_has_seeded_draws_on_unless_the_first_training_is_given_a_seed(made, given, chosen, seeds):
    import keras

    keras.utils.set_random_seed(3)
    state = random.getstate()
    assert set_seed(made, given) == chosen
    assert (random.getstate() != state) is seeds


def test_a_program_without_any_seed_has_tensorflows_set_and_no_other():
    import tensorflow as tf

    tf.random.set_seed(1)
    tf.compat.v1.set_random_seed(None)
    state = random.getstate()
    assert set_seed(context(), 0) == 0
    assert random.getstate() == state
    first = tf.random.uniform([1])
    tf.random.set_seed(0)
    assert first == tf.random.uniform([1])
