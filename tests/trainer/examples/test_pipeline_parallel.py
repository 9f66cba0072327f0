"""The pipeline example: split over devices and micro-batches it learns what the unsplit model learns."""

import re

import pytest
import yaml

from tests.trainer.training import launch as launching

pytestmark = pytest.mark.trainer
EXAMPLES = launching.ROOT / "examples"
LAST = re.compile(r"^loss (\S+), accuracy (\S+) after (\d+) steps on (.*)$", re.MULTILINE)


def run(devices, *arguments):
    job = yaml.safe_load((EXAMPLES / "pipeline-parallel.yaml").read_text())["spec"]
    environment = {"DTJ_STRATEGY": f'{{"type": "{job["strategy"]["type"]}"}}', "DTJ_LOGICAL_DEVICES": devices}
    ended = launching.run("pipeline_parallel.py", *arguments, environment=environment, folder=EXAMPLES)
    assert ended.code == 0, ended.output[-4000:]
    found = LAST.search(ended.output)
    assert found, ended.output[-4000:]
    loss, accuracy, steps, places = found.groups()
    return float(loss), float(accuracy), int(steps), places


def test_layers_on_four_devices_with_micro_batches_learn_what_one_device_learns():
    loss, accuracy, steps, places = run("4", "--epochs=3", "--micro-batches=4")
    assert places == "device:CPU:0, device:CPU:1, device:CPU:2, device:CPU:3"
    whole = run("1", "--epochs=3", "--micro-batches=1")
    assert whole[3] == "device:CPU:0"
    assert (loss, accuracy, steps) == pytest.approx(whole[:3], rel=1e-3)
    assert accuracy > 0.7
