"""A job is done when the chief's program has ended, not when its training has."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.trainer.supervisor.conftest import Launcher, Pod, until
from tests.trainer.training.launch import PROGRAMS as TRAINING_PROGRAMS

pytestmark = pytest.mark.trainer


def saving(directory: Path, **more: str) -> dict[str, str]:
    return {"DTJ_CHECKPOINT": json.dumps({"directory": str(directory), "everySteps": 4}), "DTJ_THREADS": "1", **more}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "left"
    made.mkdir()
    return made


def waits(pod: Pod) -> bool:
    """Whether its program has ended, and it waits for the chief."""
    return pod.said[-1:] == ["end"] and pod.status()["phase"] == "done"


def test_what_follows_the_training_raises_once_and_is_run_again_with_a_worker_that_has_waited(
    launch: Launcher, folder: Path, tmp_path: Path
):
    state = tmp_path / "state"
    tasks = launch.tasks()
    arguments = ("afterwards.py", str(folder), "raises", "9")  # longer than peers wait for one another at an end
    pods = [launch.start(*arguments, http=http, environment={**env, **saving(state)}) for http, env in tasks]
    assert pods[0].wait() == 1, pods[0].log
    assert pods[0].termination()["class"] == "user-error"
    assert not (state / "done.json").exists()
    until(lambda: waits(pods[1]), "worker 1 does not wait")
    assert pods[1].get("/readyz")[0] == 200
    http, environment = tasks[0]
    again = launch.start(*arguments, http=http, environment={**environment, **saving(state, DTJ_ATTEMPT="1")})
    assert again.wait() == 0, again.log
    assert pods[1].wait() == 0, pods[1].log
    assert again.said[1:] == ["fitted 8 8", "end"]
    assert [line for line in pods[1].said if "begin" not in line] == ["fitted 8 None", "end", "fitted 8 8", "end"]
    assert (folder / "uploaded").exists()
    assert json.loads((state / "done.json").read_text())["step"] == 8
    late = launch.start(*arguments, http=http, environment={**environment, **saving(state, DTJ_ATTEMPT="2")})
    assert late.wait() == 0
    assert late.last_line == "finished at step 8 already"


def test_a_chief_that_is_killed_after_the_training_starts_again_in_place_and_so_does_a_worker_that_was_done(
    launch: Launcher, folder: Path, tmp_path: Path
):
    environment = saving(tmp_path / "state")
    pods = launch.cluster("afterwards.py", str(folder), "dies", "0", environments=dict.fromkeys(range(2), environment))
    assert [pod.wait() for pod in pods] == [0, 0], pods[0].log + pods[1].log
    assert [pod.termination()["restarts"] for pod in pods] == [1, 1]
    assert pods[0].said[-2:] == ["fitted 8 8", "end"]
    assert (folder / "uploaded").exists()


def test_a_worker_whose_process_is_killed_while_it_waits_waits_on_without_it(
    launch: Launcher, folder: Path, tmp_path: Path
):
    environment = saving(tmp_path / "state")
    arguments = ("afterwards.py", str(folder), "nothing", "6")
    pods = launch.cluster(*arguments, environments=dict.fromkeys(range(2), environment))
    until(lambda: waits(pods[1]), "worker 1 does not wait")
    os.kill(pods[1].training_process(), signal.SIGKILL)
    assert [pod.wait() for pod in pods] == [0, 0], pods[0].log + pods[1].log
    assert [pod.termination()["restarts"] for pod in pods] == [0, 0]


def test_an_error_of_another_worker_after_its_training_is_its_own_and_the_job_ends_well(
    launch: Launcher, folder: Path, tmp_path: Path
):
    environment = saving(tmp_path / "state")
    arguments = ("afterwards.py", str(folder), "misses", "12")  # longer than TensorFlow takes to miss a worker
    pods = launch.cluster(*arguments, environments=dict.fromkeys(range(2), environment))
    assert [pod.wait() for pod in pods] == [0, 1], pods[0].log + pods[1].log
    assert pods[1].termination()["class"] == "user-error"
    assert (folder / "uploaded").exists()


@pytest.mark.parametrize("index", [0, 1])
def test_a_program_that_leaves_by_os_exit_is_done_too(index: int, launch: Launcher, folder: Path, tmp_path: Path):
    environment = saving(tmp_path / "state")
    arguments = ("--start-seconds", "20", "afterwards.py", str(folder), f"{index} leaves", "3")
    pods = launch.cluster(*arguments, environments=dict.fromkeys(range(2), environment))
    assert [pod.wait(30) for pod in pods] == [0, 0], pods[0].log + pods[1].log
    assert (tmp_path / "state" / "done.json").exists() == (index == 1)  # written when a program ends by itself


def test_a_worker_that_is_told_to_stop_while_it_waits_says_that_the_state_is_saved(
    launch: Launcher, folder: Path, tmp_path: Path
):
    environment = saving(tmp_path / "state")
    arguments = ("--grace-seconds", "0.5", "afterwards.py", str(folder), "hangs", "0")
    pods = launch.cluster(*arguments, environments=dict.fromkeys(range(2), environment))
    until(lambda: waits(pods[1]), "worker 1 does not wait")
    pods[1].process.terminate()
    assert pods[1].wait() == 42, pods[1].log
    assert pods[1].last_line == "told to stop (SIGTERM) before the program of worker 0 has ended; the state is saved"
    pods[0].process.terminate()
    assert pods[0].wait() == 42, pods[0].log


@pytest.mark.parametrize(
    ("state", "failure", "code"), [("state", "nothing", 0), ("state", "hangs", 42), ("", "hangs", 143)]
)
def test_sigterm_after_the_training_leaves_the_program_its_grace(
    state: str, failure: str, code: int, launch: Launcher, folder: Path, tmp_path: Path
):
    environment = saving(tmp_path / state) if state else {}
    grace = "10" if code == 0 else "0.5"
    pod = launch.start("--grace-seconds", grace, "afterwards.py", str(folder), failure, "1", environment=environment)
    until((folder / "tried").exists, "the training does not end")
    pod.process.terminate()
    assert pod.wait() == code, pod.log
    assert (tmp_path / "state" / "done.json").exists() == (code == 0)


CATCHES = """
import os, sys, time
import numpy as np
import dtj
job_kind, leaves = sys.argv[1], sys.argv[2]
def trains_by_fit():
    import keras
    dtj.init()
    x = np.ones((96, 8), "float32")
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    def slow(batch, logs):
        print("SAY step", flush=True)
        time.sleep(0.2)
    callbacks = [keras.callbacks.LambdaCallback(on_train_batch_end=slow)]
    dtj.fit(model, x, x[:, :1], epochs=1000, batch_size=24, callbacks=callbacks)
def trains_by_hand():
    import tensorflow as tf
    with dtj.session() as job:
        made = tf.Variable(0)
        for step in range((job.checkpoints.restore(made=made) or 0) + 1, 1000):
            print("SAY step", flush=True)
            time.sleep(0.2)
            try:
                job.report(step=step)
            except Exception:
                break
try:
    trains_by_fit() if job_kind == "fit" else trains_by_hand()
except Exception as error:
    print("SAY caught", type(error).__name__, flush=True)
if leaves == "exit":
    sys.exit(0)
"""


@pytest.mark.parametrize(("kind", "workers", "leaves"), [("fit", 1, ""), ("fit", 2, "exit"), ("hand", 1, "")])
def test_a_program_that_catches_what_asks_it_to_leave_is_preempted_and_not_done(
    kind: str, workers: int, leaves: str, launch: Launcher, tmp_path: Path
):
    program = tmp_path / "catches.py"
    program.write_text(CATCHES)
    environment = saving(tmp_path / "state")
    pods = launch.cluster(
        str(program), kind, leaves, workers=workers, environments=dict.fromkeys(range(workers), environment)
    )
    until(lambda: all(pod.said.count("step") > 2 for pod in pods), "not all train")
    for pod in pods:
        pod.process.terminate()
    assert [pod.wait() for pod in pods] == [42] * workers, pods[0].log
    assert [pod.termination()["class"] for pod in pods] == ["preempted"] * workers
    assert pods[0].last_line.startswith("asked to leave; saved step ")
    assert not (tmp_path / "state" / "done.json").exists()


def test_an_evaluator_ends_when_the_chiefs_program_has(launch: Launcher, tmp_path: Path):
    program, state = str(TRAINING_PROGRAMS / "again.py"), tmp_path / "state"
    alone = {"TF_CONFIG": '{"cluster": {}, "task": {"type": "evaluator", "index": 0}}', **saving(state)}
    chief = launch.start(program, environment=saving(state))
    assert chief.wait() == 0, chief.log
    done = (state / "done.json").read_text()
    (state / "done.json").unlink()  # as if the program were not over
    evaluator = launch.start(program, environment=alone)
    until(lambda: "TEST " in evaluator.log, "the evaluator does not evaluate both trainings")
    time.sleep(2)
    assert evaluator.process.poll() is None
    (state / "done.json").write_text(done)
    assert evaluator.wait() == 0, evaluator.log
