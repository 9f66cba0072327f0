"""What people bring along trains on several replicas what it trains on one."""

import json
from typing import Any

import numpy as np
import pytest

from tests.trainer.training import launch

pytestmark = pytest.mark.trainer

LOSSES = ("scalar_loss", "weighted", "own_loss", "half_loss", "shared_loss", "more_loss", "sums", "outputs")
CASES = (*LOSSES, "last_example", "padded", "one_part")
APART = ("scalar_loss", "weighted", "more_loss", "outputs", "last_example")
"""What CentralStorage trains, whose metrics are counted apart; two processes too."""


@pytest.fixture(scope="module")
def one_device() -> dict[str, Any]:
    return launch.run("ported.py", *CASES).said


@pytest.fixture(scope="module")
def two_devices() -> dict[str, Any]:
    return launch.run("ported.py", *CASES, environment={"DTJ_LOGICAL_DEVICES": "2"}).said


@pytest.fixture(scope="module")
def central_storage() -> dict[str, Any]:
    environment = {"DTJ_LOGICAL_DEVICES": "2", "DTJ_STRATEGY": json.dumps({"type": "CentralStorage"})}
    return launch.run("ported.py", *APART, environment=environment).said


def assert_equal(got: Any, wanted: Any, atol: float = 2e-5) -> None:
    assert isinstance(got, dict), got
    np.testing.assert_allclose(got["weights"], wanted["weights"], rtol=2e-4, atol=atol)
    assert got["metrics"] == pytest.approx(wanted["metrics"], rel=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_two_devices_train_what_one_trains(case, one_device, two_devices):
    assert_equal(two_devices[case], one_device[case], atol=1e-3 if case == "half_loss" else 2e-5)


@pytest.mark.parametrize("case", APART)
def test_central_storage_trains_what_one_device_trains(case, one_device, central_storage):
    assert_equal(central_storage[case], one_device[case])


def test_two_processes_train_what_one_trains(one_device):
    for worker in launch.run_workers(2, "ported.py", *APART):
        for case in APART:
            assert_equal(worker.said[case], one_device[case])
