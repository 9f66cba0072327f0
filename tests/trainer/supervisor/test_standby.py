"""A second process that takes over when one of the job falls: docs/decisions/041-standby-processes.md."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.supervisor.conftest import Launcher, Pod, children, until

pytestmark = pytest.mark.trainer
STEPS = 600
"""A slow job of so many lasts for longer than any standby takes to get ready."""


def forks(pod: Pod) -> list[int]:
    """Children of the zygote: the one that trains, then the standby."""
    (zygote,) = pod.children()
    return children(zygote)


def stand_by(pods: list[Pod]) -> None:
    until(lambda: all("dtj_standby_ready 1" in page(pod) for pod in pods), "not all have a standby")


def page(pod: Pod) -> str:
    try:
        return pod.get("/metrics")[1]
    except OSError:  # not yet there
        return ""


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """While this file is there, jobs are slow."""
    file = tmp_path / "slow"
    file.touch()
    return file


def job(launch: Launcher, directory: Path, slow: Path) -> list[Pod]:
    environments = dict.fromkeys(range(2), checkpoints(directory))
    return launch.cluster("fitting.py", f"{STEPS}", str(slow), environments=environments)


def checkpoints(directory: Path) -> dict[str, str]:
    return {"DTJ_CHECKPOINT": json.dumps({"directory": str(directory), "everySteps": 20})}


def restarted(pods: list[Pod], times: int) -> None:
    until(lambda: all(pod.status()["restarts"] == times for pod in pods), f"not all restarted {times} times")


def recoveries(pod: Pod) -> Any:
    return pod.status()["recoveries"]


def assert_recovered(told: Any, times: int, victim: int) -> None:
    last = told["last"]
    assert (told["count"], last["cause"], last["role"], last["index"]) == (times, "killed", "worker", victim)
    assert 0 < last["seconds"] < 60


def recovered(pods: list[Pod], times: int, victim: int) -> None:
    until(lambda: all(recoveries(pod)["count"] == times for pod in pods), f"not all recovered {times} times")
    for pod in pods:
        assert_recovered(recoveries(pod), times, victim)


def weights(pod: Pod) -> list[float]:
    return [float(value) for value in pod.said[-1].split()[1:]]


def test_standbys_take_over_again_and_again_and_the_model_is_the_same(launch: Launcher, tmp_path: Path, slow: Path):
    pods = job(launch, tmp_path / "disturbed", slow)
    for times, victim in enumerate((0, 1), 1):
        stand_by(pods)
        standbys = [forks(pod)[1] for pod in pods]
        os.kill(forks(pods[victim])[0], signal.SIGKILL)
        restarted(pods, times)
        assert [forks(pod)[0] for pod in pods] == standbys
        recovered(pods, times, victim)
    slow.unlink()
    assert [pod.wait() for pod in pods] == [0, 0]
    for pod in pods:
        ended = pod.termination()
        assert_recovered(ended["recoveries"], 2, 1)
        assert ended["totalSteps"] == STEPS
        assert ended["loss"] is not None
    undisturbed = job(launch, tmp_path / "undisturbed", slow)
    assert [pod.wait() for pod in undisturbed] == [0, 0]
    assert weights(pods[0]) == pytest.approx(weights(undisturbed[0]), rel=1e-4, abs=1e-6)


def test_a_standby_says_nothing_before_it_takes_over(launch: Launcher, tmp_path: Path, slow: Path):
    pods = job(launch, tmp_path / "checkpoints", slow)
    stand_by(pods)
    assert [len([line for line in pod.said if line.startswith("begin")]) for pod in pods] == [1, 1]
    standby = forks(pods[1])[1]
    os.kill(forks(pods[1])[0], signal.SIGKILL)
    until(lambda: f"begin {standby}" in pods[1].said, "what the standby had printed did not come")


def test_a_lost_standby_disturbs_nothing_and_the_next_loss_is_met_with_new_processes(
    launch: Launcher, tmp_path: Path, slow: Path
):
    pods = job(launch, tmp_path / "checkpoints", slow)
    stand_by(pods)
    trains, standby = forks(pods[0])
    os.kill(standby, signal.SIGKILL)
    until(lambda: forks(pods[0]) == [trains], "the standby is not gone")
    os.kill(trains, signal.SIGKILL)
    restarted(pods, 1)
    slow.unlink()
    assert [pod.wait() for pod in pods] == [0, 0]
    assert [pod.termination()["restarts"] for pod in pods] == [1, 1]


def test_standbys_of_a_pod_that_left_are_given_up_and_its_successor_is_met_with_new_processes(
    launch: Launcher, tmp_path: Path, slow: Path
):
    checkpoint = checkpoints(tmp_path / "checkpoints")
    program = ("fitting.py", f"{STEPS}", str(slow))
    tasks = launch.tasks()
    first, second = (
        launch.start(*program, http=http, environment=environment | checkpoint) for http, environment in tasks
    )
    stand_by([first, second])
    second.process.terminate()
    assert second.wait() == 42
    slow.unlink()
    http, environment = tasks[1]
    successor = launch.start(*program, http=http, environment=environment | checkpoint | {"DTJ_ATTEMPT": "1"})
    assert [pod.wait() for pod in (first, successor)] == [0, 0]
    assert first.termination()["restarts"] == 1
    assert successor.termination()["step"] == STEPS


def test_a_standby_of_the_leader_that_is_frozen_when_it_takes_over_is_given_up(
    launch: Launcher, tmp_path: Path, slow: Path
):
    pods = job(launch, tmp_path / "checkpoints", slow)
    stand_by(pods)
    os.kill(forks(pods[0])[1], signal.SIGSTOP)
    os.kill(forks(pods[1])[0], signal.SIGKILL)
    restarted(pods, 2)
