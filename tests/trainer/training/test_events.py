"""What a training leaves for TensorBoard."""

import json

import pytest

from tests.trainer.training import launch

pytestmark = pytest.mark.trainer


def test_event_files_hold_the_steps_and_the_metrics_of_each_epoch(tmp_path):
    ended = launch.run("resume.py", environment={**launch.checkpoint(tmp_path), "TEST_EPOCHS": "3"})
    assert ended.code == 0, ended.output
    points = launch.run("events.py", str(tmp_path / "logs")).said
    steps = [step for step, _ in points["loss"]]
    assert steps == sorted(set(steps))
    assert {10, 20, 30} <= set(steps)
    assert [step for step, _ in points["learning_rate"]] == steps
    assert [step for step, _ in points["epoch/mae"]] == [10, 20, 30]
    last = json.loads((tmp_path / "trainings.json").read_text())["trainings"][0]["metrics"]
    assert points["epoch/mae"][-1][1] == pytest.approx(last["mae"], rel=1e-5)
