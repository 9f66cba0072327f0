"""Keras on JAX: two pods of strategy None whose program calls keras.distribution.initialize() by itself."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.support import pinned_packages, source_roots
from tests.trainer.supervisor.conftest import Launcher, until

pytestmark = pytest.mark.trainer


def test_a_program_on_jax_is_killed_once_and_goes_on_from_its_own_checkpoints(launch_anew: Launcher, tmp_path: Path):
    tasks = launch_anew.tasks()
    config = json.loads(tasks[0][1]["TF_CONFIG"])
    pods = [
        launch_anew.start(
            "keras_jax.py",
            str(tmp_path),
            http=http,
            environment={
                **environment,
                "PYTHONPATH": f"{source_roots.TRAINER}{os.pathsep}{pinned_packages.folder('jax')}",
                "DTJ_STRATEGY": '{"type": "None"}',
                "KERAS_BACKEND": "jax",
                "JAX_PLATFORMS": "cpu",
                "KERAS_DISTRIBUTION_JOB_ADDRESSES": ",".join(config["cluster"]["worker"]),
                "KERAS_DISTRIBUTION_NUM_PROCESSES": "2",
                "KERAS_DISTRIBUTION_PROCESS_ID": str(index),
            },
        )
        for index, (http, environment) in enumerate(tasks)
    ]
    until(lambda: all("epoch 2" in pod.said for pod in pods), "not all trained")
    assert all(pod.get("/readyz")[0] == 200 for pod in pods)
    os.kill(pods[1].training_process(), signal.SIGKILL)
    assert [pod.wait() for pod in pods] == [0, 0], pods[0].log + pods[1].log
    assert [pod.termination()["restarts"] for pod in pods] == [1, 1]
    for pod in pods:
        assert sum(line.startswith("begin ") and "jax" in line for line in pod.said) == 2
        assert any(line.startswith("resumed ") for line in pod.said)
        assert pod.said.count("epoch 8") == 1
    assert pods[0].said[-1] == pods[1].said[-1]
    assert pods[0].said[-1].startswith("weights ")
