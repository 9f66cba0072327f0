"""The mathematics does not depend on how many devices or processes do it."""

from typing import Any

import numpy as np
import pytest

from tests.trainer.loop import launch

pytestmark = pytest.mark.trainer

CASES = ("sgd", "adam", "clip", "keras_clip", "accumulate", "dataset", "norm")


@pytest.fixture(scope="module")
def one_device() -> dict[str, Any]:
    ended = launch.run("equal.py")
    assert ended.code == 0, ended.output
    return ended.said


@pytest.fixture(scope="module")
def mirrored() -> dict[str, Any]:
    ended = launch.run("equal.py", environment={"DTJ_LOGICAL_DEVICES": "2"})
    assert "strategy Mirrored" in ended.output
    return ended.said


@pytest.fixture(scope="module")
def two_workers() -> list[dict[str, Any]]:
    ended = launch.run_workers(2, "equal.py")
    assert [each.code for each in ended] == [0, 0], ended[0].output + ended[1].output
    return [each.said for each in ended]


def assert_equal(case: str, got: dict[str, Any], expected: dict[str, Any]) -> None:
    assert got[case]["step"] == expected[case]["step"]
    np.testing.assert_allclose(got[case]["weights"], expected[case]["weights"], rtol=2e-4, atol=2e-5)
    assert got[case]["metrics"] == pytest.approx(expected[case]["metrics"], rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_two_devices_train_what_one_trains(case, one_device, mirrored):
    assert_equal(case, mirrored, one_device)


@pytest.mark.parametrize("case", CASES)
def test_two_processes_train_what_one_trains(case, one_device, two_workers):
    for worker in two_workers:
        assert_equal(case, worker, one_device)


def test_clipping_by_keras_and_by_the_loop_agree(one_device):
    np.testing.assert_allclose(one_device["clip"]["weights"], one_device["keras_clip"]["weights"], rtol=1e-4)


def test_metrics_have_kerass_names(one_device):
    assert set(one_device["dataset"]["metrics"]) == {"loss", "mae", "val_loss", "val_mae"}
