"""What Keras' own fit trains on one device, dtj.fit trains too, and tells the same of it."""

from typing import Any

import numpy as np
import pytest

from tests.trainer.training import launch

pytestmark = pytest.mark.trainer


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    return launch.run("as_keras.py").said


def assert_equal(ours: dict[str, Any], kerass: dict[str, Any]) -> None:
    np.testing.assert_allclose(ours["weights"], kerass["weights"], rtol=1e-4, atol=1e-6)
    assert ours["metrics"] == pytest.approx(kerass["metrics"], rel=1e-4)


@pytest.mark.matrix
def test_the_loss_of_an_epoch_is_that_of_its_examples_also_where_batches_differ_in_size(told):
    assert_equal(*told["uneven"])
    assert told["uneven"][0]["metrics"]["loss"] == pytest.approx(told["uneven"][0]["metrics"]["mse"], rel=1e-5)


@pytest.mark.matrix
def test_an_embedding_learns_from_accumulated_batches_what_it_learns_from_one_of_their_size(told):
    assert_equal(*told["accumulated"])


def test_uses_of_one_entry_of_an_embedding_are_clipped_together(told):
    assert told["clipped"] == pytest.approx([0.1, 0.1], rel=1e-4)


@pytest.mark.parametrize(
    ("step", "names"),
    [
        ("own train_step", {"loss", "mae", "val_loss", "val_mae"}),
        ("own test_step", {"loss", "mae", "val_far"}),
    ],
)
def test_a_model_with_one_step_of_its_own_tells_what_each_step_tells(step, names, told):
    assert_equal(*told[step])
    assert set(told[step][0]["metrics"]) == names
