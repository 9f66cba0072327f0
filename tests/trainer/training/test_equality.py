"""The mathematics does not depend on how many devices or processes do it."""

from typing import Any

import numpy as np
import pytest

from tests.trainer.training import launch

pytestmark = pytest.mark.trainer

CASES = ("sgd", "adam", "clip", "keras_clip", "accumulate", "own", "dataset", "norm")
MANY = ("sgd", "clip", "accumulate", "own", "norm")
"""What more than two devices or processes train too; Adam among them (accumulate)."""
CASES_OF_FOUR = ("clip", "dataset", "norm")


@pytest.fixture(scope="module")
def one_device() -> dict[str, Any]:
    ended = launch.run("equal.py", *CASES)
    assert ended.code == 0, ended.output
    return ended.said


def devices(count: int, cases: tuple[str, ...]) -> dict[str, Any]:
    ended = launch.run("equal.py", *cases, environment={"DTJ_LOGICAL_DEVICES": str(count)})
    assert f"strategy Mirrored (one process with {count} devices), {count} replicas" in ended.output
    return ended.said


def workers(count: int, cases: tuple[str, ...]) -> list[dict[str, Any]]:
    ended = launch.run_workers(count, "equal.py", *cases)
    assert [each.code for each in ended] == [0] * count, "".join(each.output for each in ended)
    return [each.said for each in ended]


@pytest.fixture(scope="module")
def two_devices() -> dict[str, Any]:
    return devices(2, CASES)


@pytest.fixture(scope="module")
def four_devices() -> dict[str, Any]:
    return devices(4, MANY)


@pytest.fixture(scope="module")
def two_workers() -> list[dict[str, Any]]:
    return workers(2, CASES)


@pytest.fixture(scope="module")
def three_workers() -> list[dict[str, Any]]:
    return workers(3, MANY)


@pytest.fixture(scope="module")
def two_workers_of_two_devices() -> list[dict[str, Any]]:
    ended = launch.run_workers(2, "equal.py", *CASES_OF_FOUR, environment={"DTJ_LOGICAL_DEVICES": "2"})
    assert "strategy MultiWorkerMirrored (2 processes train), 4 replicas in 2 processes" in ended[0].output
    return [each.said for each in ended]


def assert_equal(case: str, got: dict[str, Any], expected: dict[str, Any]) -> None:
    """Weights within 2e-4 of their size, or 2e-5; losses and metrics within 1e-4."""
    assert got[case]["step"] == expected[case]["step"]
    np.testing.assert_allclose(got[case]["weights"], expected[case]["weights"], rtol=2e-4, atol=2e-5)
    assert got[case]["metrics"] == pytest.approx(expected[case]["metrics"], rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_two_devices_train_what_one_trains(case, one_device, two_devices):
    assert_equal(case, two_devices, one_device)


@pytest.mark.parametrize("case", MANY)
def test_four_devices_train_what_one_trains(case, one_device, four_devices):
    assert_equal(case, four_devices, one_device)


@pytest.mark.parametrize("case", CASES_OF_FOUR)
def test_two_processes_of_two_devices_train_what_one_trains(case, one_device, two_workers_of_two_devices):
    for worker in two_workers_of_two_devices:
        assert_equal(case, worker, one_device)


@pytest.mark.matrix
@pytest.mark.parametrize("case", CASES)
def test_two_processes_train_what_one_trains(case, one_device, two_workers):
    for worker in two_workers:
        assert_equal(case, worker, one_device)


@pytest.mark.parametrize("case", MANY)
def test_three_processes_train_what_one_trains(case, one_device, three_workers):
    for worker in three_workers:
        assert_equal(case, worker, one_device)


def test_a_step_of_ones_own_may_gather_an_update_from_several_batches(one_device):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 8)).astype("float32")
    y = x[:, :3].sum(1, keepdims=True) + 0.1
    slope = np.zeros((8, 1))
    for part in np.split(np.arange(240), 10):
        slope -= 0.1 * 2 / 24 * x[part].T @ (x[part] @ slope - y[part])
    np.testing.assert_allclose(one_device["own"]["weights"], slope.ravel(), rtol=1e-4, atol=1e-6)


@pytest.mark.matrix
def test_clipping_by_keras_and_by_the_loop_agree(one_device):
    np.testing.assert_allclose(one_device["clip"]["weights"], one_device["keras_clip"]["weights"], rtol=1e-4)


@pytest.mark.matrix
def test_metrics_have_kerass_names(one_device):
    assert set(one_device["dataset"]["metrics"]) == {"loss", "mae", "val_loss", "val_mae"}
