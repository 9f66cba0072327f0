"""Strategies that need one process, and the evaluator."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer.training import launch

pytestmark = pytest.mark.trainer

PROGRAMS = Path(__file__).parent / "programs"


def run(**environment: str) -> launch.Ended:
    return launch.run("servers.py", environment={"TEST_EPOCHS": "2", **environment}, folder=PROGRAMS)


def strategy(kind: str, **options: Any) -> dict[str, str]:
    return {"DTJ_STRATEGY": json.dumps({"type": kind, **options})}


OP_FIRST = {"TEST_OP_FIRST": "yes"}
TOO_LATE = "TensorFlow ran an op before devices were configured; call dtj.init() first, "


@pytest.fixture(scope="module")
def one_device() -> dict[str, Any]:
    return run().said


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"DTJ_LOGICAL_DEVICES": "3"}, "Mirrored"),
        ({"DTJ_LOGICAL_DEVICES": "2", **strategy("Mirrored", crossDeviceOps="HierarchicalCopy")}, "Mirrored"),
        ({"DTJ_LOGICAL_DEVICES": "2", **strategy("CentralStorage")}, "CentralStorage"),
        (strategy("None"), "None"),
        ({"DTJ_THREADS": "1", **OP_FIRST}, "OneDevice"),
    ],
)
def test_weights_and_metrics_are_those_of_one_device(one_device, environment, name):
    said = run(**environment).said
    assert said["strategy"] == name
    assert said["metrics"]["hits"] == one_device["metrics"]["hits"]
    assert said["metrics"]["val_hits"] == said["hits"] == one_device["hits"]
    assert said["metrics"] == pytest.approx(one_device["metrics"], rel=1e-4)
    np.testing.assert_allclose(said["weights"], one_device["weights"], rtol=2e-3, atol=2e-5)


def test_a_step_of_ones_own_is_validated_stopped_and_the_same_on_three_devices():
    alone = launch.run("own_step.py", folder=PROGRAMS).said
    three = launch.run("own_step.py", environment={"DTJ_LOGICAL_DEVICES": "3"}, folder=PROGRAMS).said
    for said in (alone, three):
        assert said["step"] == 40  # its callback stopped it after two of four epochs
        assert said["metrics"]["val_error"] == pytest.approx(said["error"], rel=1e-5)
    assert three["metrics"] == pytest.approx(alone["metrics"], rel=1e-5)


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        (strategy("TPU"), "the TPU strategy was asked for and there is no TPU here; "),
        (strategy("ParameterServer"), "ParameterServer needs a chief, workers and ps, and the cluster has no ps; "),
        (strategy("Mirrored", crossDeviceOps="NCCL"), "NCCL needs GPUs and there is none here; "),
        ({"DTJ_GPUS": "2"}, "2 GPUs were asked for and TensorFlow sees 0; "),
        (strategy("Mirorred"), "strategy 'Mirorred' is unknown; use one of Auto, "),
        ({"DTJ_LOGICAL_DEVICES": "2", **OP_FIRST}, TOO_LATE),
        ({"DTJ_DETERMINISTIC": "true", **OP_FIRST}, TOO_LATE),
        ({"TF_CONFIG": '{"cluster": {}, "task": {"type": "evaluator", "index": 0}}'}, "an evaluator evaluates checkp"),
        ({**strategy("CentralStorage"), "TEST_DROPOUT": "0.5"}, "Keras 3 cannot train a layer that writes "),
        (
            {**strategy("CentralStorage"), "TEST_AVERAGE": "yes"},
            "Keras 3 cannot scale the loss for float16, nor average",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(environment, sentence):
    ended = run(**environment)
    assert ended.code == 1
    assert ended.exit_line.startswith(f"dtj: {sentence}")
    assert "Traceback" not in ended.output


def test_an_evaluator_evaluates_what_is_kept_once_and_ends_with_the_job(tmp_path, one_device):
    job = launch.checkpoint(tmp_path, everySteps=15, keep=2)
    alone = {**job, "TF_CONFIG": '{"cluster": {}, "task": {"type": "evaluator", "index": 0}}'}
    beside = launch.start("servers.py", environment=alone, folder=PROGRAMS)
    trained = run(**job)
    assert trained.code == 0, trained.output
    evaluated = launch.finish(beside)
    assert evaluated.code == 0, evaluated.output
    assert "dtj: evaluated step 40  " in evaluated.output
    wanted = {name: value for name, value in trained.said["metrics"].items() if name.startswith("val_")}
    assert evaluated.said["metrics"] == pytest.approx(wanted, rel=1e-5)
    assert list((tmp_path / "logs" / "eval").glob("events.out.*"))
    again = launch.run("servers.py", environment=alone, folder=PROGRAMS)
    assert again.code == 0
    assert "dtj: evaluated step 40" not in again.output
    assert again.said["metrics"] == evaluated.said["metrics"]
