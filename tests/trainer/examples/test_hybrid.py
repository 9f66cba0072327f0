"""The DTensor example: two pods with two devices each compute what one process with four does."""

import re
from pathlib import Path

import pytest
import yaml

from tests.trainer.supervisor.conftest import Launcher, launch
from tests.trainer.training import launch as launching

pytestmark = pytest.mark.trainer
__all__ = ["launch"]

EXAMPLES = Path(launching.ROOT / "examples")
SAID = re.compile(r"^loss (\S+) before, (\S+) after 60 steps; a device has \(8, 16\) of \(8, 32\)$", re.MULTILINE)


def test_a_mesh_over_two_pods_trains_as_it_does_in_one_process(launch: Launcher):
    job = yaml.safe_load((EXAMPLES / "hybrid-dtensor.yaml").read_text())["spec"]
    assert job["replicaSpecs"]["worker"]["replicas"] == 2
    arguments = [str(EXAMPLES / "hybrid.py"), "--steps=60"]
    strategy = {index: {"DTJ_STRATEGY": '{"type": "None"}'} for index in range(2)}
    pods = launch.cluster("--threads", "1", *arguments, environments=strategy)
    for pod in pods:
        assert pod.wait() == 0, pod.log
    told = [SAID.search(pod.log) for pod in pods]
    alone = launch.start("--threads", "1", *arguments)
    assert alone.wait() == 0, alone.log
    expected = SAID.search(alone.log)
    assert expected, alone.log
    before, after = map(float, expected.groups())
    assert after < before / 2
    for each, pod in zip(told, pods, strict=True):
        assert each, pod.log
        assert tuple(map(float, each.groups())) == pytest.approx((before, after), rel=1e-4)
