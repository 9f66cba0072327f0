"""A program that trains with our loop under `dtj-run`, on one device."""

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.trainer.supervisor.conftest import Launcher, processes, until

pytestmark = pytest.mark.trainer


def job(directory: Path, attempt: int = 0) -> dict[str, str]:
    checkpoint = {"directory": str(directory), "everySteps": 2, "keep": 2}
    return {"DTJ_UID": "u", "DTJ_ATTEMPT": str(attempt), "DTJ_CHECKPOINT": json.dumps(checkpoint), "DTJ_THREADS": "1"}


def files(directory: Path) -> dict[str, tuple[int, bytes]]:
    return {
        path.name: (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(directory.iterdir())
        if path.is_file()
    }


def test_a_chief_that_was_cut_off_writes_nothing_once_its_successor_has_begun(launch: Launcher, tmp_path: Path):
    directory = tmp_path / "state"
    old = launch.start("--stall-seconds", "600", "training.py", "100000", environment=job(directory))
    until((directory / "checkpoint").exists, "no checkpoint")
    frozen = processes(old)
    assert len(frozen) >= 3
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    new = launch.start("training.py", "12", environment=job(directory, attempt=1))
    assert new.wait() == 0, new.log
    assert new.termination()["step"] == 12
    assert re.search(r"^dtj: going on after step \d+ of 12$", new.log, re.MULTILINE)
    before = files(directory)
    assert {"ckpt-12.index", "done.json", "owner.json"} <= before.keys()
    for pid in reversed(frozen):
        os.kill(pid, signal.SIGCONT)
    assert old.wait() == 75, old.log
    assert old.termination()["class"] == "fenced"
    assert old.last_line == f"attempt 1 of this job owns {directory}; attempt 0 writes no more"
    assert files(directory) == before


def test_a_chief_that_trains_on_without_a_network_stops_once_its_successor_has_begun(launch: Launcher, tmp_path: Path):
    old = launch.start("training.py", "100000", environment=job(tmp_path))
    until((tmp_path / "checkpoint").exists, "no checkpoint")
    new = launch.start("training.py", "100000", environment=job(tmp_path, attempt=1))
    assert old.wait() == 75, old.log
    assert old.termination()["class"] == "fenced"
    last = saved_step(tmp_path)
    until(lambda: saved_step(tmp_path) > last, "the successor saves nothing")
    new.process.terminate()
    assert new.wait() == 42, new.log
    assert json.loads((tmp_path / "owner.json").read_text())["attempt"] == 1
    assert saved_step(tmp_path) == new.termination()["checkpointStep"]


def test_a_second_sigterm_does_not_lose_the_save_that_the_first_asked_two_workers_for(launch: Launcher, tmp_path: Path):
    environment = job(tmp_path) | {"DTJ_UID": "uid-1", "TEST_STEP_SECONDS": "0.5"}
    pods = launch.cluster(
        "--standby", "off", "training.py", "100000", environments=dict.fromkeys(range(2), environment)
    )
    until((tmp_path / "checkpoint").exists, "no checkpoint")
    for _ in range(2):  # the workers agree on a step to stop at, which takes a second or more
        for pod in pods:
            pod.process.terminate()
        time.sleep(0.3)
    assert [pod.wait() for pod in pods] == [42, 42], [pod.log for pod in pods]
    assert saved_step(tmp_path) == pods[0].termination()["checkpointStep"] == pods[0].termination()["step"]


def saved_step(directory: Path) -> int:
    return int(json.loads((directory / "job.json").read_text())["step"])


def test_steps_are_profiled_that_a_flag_names_or_somebody_asks_for(launch: Launcher, tmp_path: Path):
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    pod = launch.start("--profile-steps", "3:5", "training.py", "100000", environment=job(tmp_path))
    until(lambda: len(profiles(tmp_path)) == 1, "no profile of the flag's steps")
    until(lambda: "dtj: profile of steps 3 to 5 lies in " in pod.log, "nothing said of it")
    assert pod.ask("/profile?steps=3", "other") == 403
    for steps in ("none", "0", "1001"):
        assert pod.ask(f"/profile?steps={steps}", "u") == 400
    time.sleep(1.1)  # TensorFlow names a profile by the second in which it ends
    assert pod.ask("/profile?steps=3", "u") == 202
    until(lambda: len(profiles(tmp_path)) == 2, "no profile after POST /profile")
    until(lambda: pod.log.count("dtj: profile of steps ") == 2, "not both said")
    for path in profiles(tmp_path):
        names = {plane.name for plane in xplane_pb2.XSpace.FromString(path.read_bytes()).planes}
        assert any(name.startswith("/host:CPU") for name in names), names


def profiles(directory: Path) -> list[Path]:
    """Where TensorBoard's profile page looks."""
    return sorted((directory / "logs" / "plugins" / "profile").glob("*/*.xplane.pb"))


def test_the_last_epochs_metrics_are_told_everywhere_before_the_program_ends(launch: Launcher, tmp_path: Path):
    port = free_port()
    pod = launch.start("reported.py", str(port), str(tmp_path / "logs"), http=port, environment=job(tmp_path))
    assert pod.wait() == 0, pod.log
    said = json.loads(pod.said[-1])
    assert said["result"].keys() == {"loss", "mae", "val_loss", "val_mae"}
    assert said["status"] == said["result"] == pod.termination()["metrics"]
    assert said["events"] == pytest.approx(said["result"])


def test_the_wait_for_a_slow_generator_is_a_part_of_its_steps(launch: Launcher):
    pod = launch.start("slow_generator.py")

    def metric(name: str) -> float:
        found = re.search(rf"^{name} (\S+)$", pod.get("/metrics")[1], re.MULTILINE)
        return float(found[1]) if found else 0.0

    until(lambda: "dtj: strategy" in pod.log, "no training")
    until(lambda: metric("dtj_steps_total") > 40, "no 40 steps")
    assert metric("dtj_data_wait_seconds_total") > 0.5 * metric("dtj_step_seconds_sum")
    assert 1 < float(str(pod.status()["stepsPerSecond"])) < 20


def test_a_save_that_hangs_is_given_up_in_one_sentence(launch: Launcher, tmp_path: Path):
    environment = job(tmp_path) | {"TEST_FLUSH_SECONDS": "600"}
    pod = launch.start("--save-seconds", "1", "--restarts", "0", "training.py", "100000", environment=environment)
    assert pod.wait() == 75, pod.log
    assert pod.termination()["class"] == "stalled"
    assert pod.last_line.startswith("a checkpoint was not saved in the time for it (--save-seconds)")


def test_an_export_that_hangs_is_tried_again_and_then_given_up_in_one_sentence(launch: Launcher, tmp_path: Path):
    flags = ("--save-seconds", "1", "--restarts", "1")
    pod = launch.start(*flags, "training.py", "4", "export", environment=job(tmp_path))
    assert pod.wait() == 75, pod.log
    assert (pod.termination()["class"], pod.termination()["restarts"]) == ("stalled", 1)
    assert pod.log.count("dtj: step 4/4") == 1  # it does not train again
    assert pod.last_line.startswith("the training is over and its export was not written in the time for it ")


def test_a_save_that_has_begun_outlives_the_loss_of_a_peer(launch: Launcher, tmp_path: Path):
    environment = job(tmp_path) | {"TEST_FLUSH_SECONDS": "0.4"}
    environment["DTJ_CHECKPOINT"] = json.dumps({"directory": str(tmp_path), "everySteps": 20})
    del environment["DTJ_UID"]
    chief, other = launch.cluster("training.py", "45", environments={0: environment, 1: environment})
    until(lambda: "flushing" in chief.said, "no save")
    os.kill(other.training_process(), signal.SIGKILL)
    assert chief.wait() == 0, chief.log
    assert "resumed 20" in chief.said


def test_peers_that_wait_for_a_slow_save_of_the_chief_have_no_stall(launch: Launcher, tmp_path: Path):
    environment = job(tmp_path) | {"TEST_FLUSH_SECONDS": "4"}
    slow = dict.fromkeys(range(2), environment)
    pods = launch.cluster("--stall-seconds", "2", "training.py", "6", environments=slow)
    assert [pod.wait() for pod in pods] == [0, 0], pods[1].log
    assert [pod.termination()["restarts"] for pod in pods] == [0, 0], pods[1].log


BY_HAND = """
import os, time
import tensorflow as tf
import dtj
flush = os.fsync
def slow_flush(file):
    os.fsync = flush
    time.sleep(4)
with dtj.session() as job:
    made = tf.Variable(0)
    begun = job.checkpoints.restore(made=made) or 0
    for step in range(begun + 1, 4):
        job.report(step=step)
    os.fsync = slow_flush
    job.checkpoints.save(3, made=made)
"""


def test_the_last_save_of_a_program_that_trains_by_hand_is_no_stall(launch: Launcher, tmp_path: Path):
    program = tmp_path / "session.py"
    program.write_text(BY_HAND)
    pod = launch.start("--stall-seconds", "2", str(program), environment=job(tmp_path))
    assert pod.wait() == 0, pod.log
    assert (pod.termination()["restarts"], pod.termination()["checkpointStep"]) == (0, 3), pod.log


CALLED = """
import time
import keras, numpy as np
import dtj
dtj.init()
x = np.ones((48, 8), "float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
class Writes(keras.callbacks.Callback):
    writes = True
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(4 if batch == 3 else 0)
    def on_epoch_end(self, epoch, logs=None):
        time.sleep(4)
    def on_train_end(self, logs=None):
        time.sleep(4)
data = dtj.data.Pipeline(dtj.data.numpy(x, x[:, :1]))
dtj.fit(model, data, steps=8, steps_per_epoch=8, batch_size=8, callbacks=[Writes()])
"""


def test_a_callback_that_writes_for_long_on_the_chief_is_no_stall_of_any_worker(launch: Launcher, tmp_path: Path):
    program = tmp_path / "called.py"
    program.write_text(CALLED)
    pods = launch.cluster("--stall-seconds", "2", str(program))
    assert [pod.wait() for pod in pods] == [0, 0], pods[0].log
    assert [pod.termination()["restarts"] for pod in pods] == [0, 0], pods[0].log + pods[1].log


PREPARES = """
import os, sys, time
import keras, numpy as np
import dtj
slow, where, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
def prepare(here):
    if os.environ["DTJ_INDEX"] == slow and where == here:
        time.sleep(seconds)
prepare("before init")
dtj.init()
prepare("before fit")
x = np.ones((48, 8), "float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
dtj.fit(model, x, x[:, :1], epochs=1, batch_size=8)
prepare("between trainings")
dtj.fit(model, x, x[:, :1], epochs=1, batch_size=8)
"""


@pytest.mark.parametrize(
    ("slow", "where"), [(0, "before init"), (1, "before fit"), (0, "between trainings"), (1, "between trainings")]
)
def test_a_preparation_that_takes_longer_on_one_worker_is_no_lost_peer_and_no_stall(
    launch: Launcher, tmp_path: Path, slow: int, where: str
):
    program = tmp_path / "prepares.py"
    program.write_text(PREPARES)
    pods = launch.cluster("--start-seconds", "3", "--stall-seconds", "2", str(program), f"{slow}", where, "9")
    assert [pod.wait() for pod in pods] == [0, 0], pods[0].log + pods[1].log
    assert [pod.termination()["restarts"] for pod in pods] == [0, 0], pods[0].log + pods[1].log


HANGS = """
import sys, time
import keras, numpy as np
import tensorflow as tf
import dtj
dtj.init()
x = np.ones((64, 8), "float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
where, found = sys.argv[1], []
class Waits(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(600 if where == "batch" and batch == 3 else 0)
    def on_epoch_end(self, epoch, logs=None):
        time.sleep(600 if where == "epoch" else 0)
def held():
    for number in range(8):
        found.append(number)
        time.sleep(600 if where == "validation" and len(found) > 12 else 0)
        yield x[:8], x[:8, :1]
signature = (tf.TensorSpec([8, 8]), tf.TensorSpec([8, 1]))
validation = lambda _: tf.data.Dataset.from_generator(held, output_signature=signature)
data = dtj.data.Pipeline(dtj.data.numpy(x, x[:, :1]))
dtj.fit(model, data, validation_data=validation, epochs=3, batch_size=8, callbacks=[Waits()])
"""


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("batch", "a callback did not return in the time for it (--save-seconds)"),
        ("epoch", "a callback did not return in the time for it (--save-seconds)"),
        ("validation", "no batch of the validation data was evaluated for too long"),
    ],
)
def test_a_hung_callback_and_a_hung_validation_are_found_as_a_hung_step_is(
    launch: Launcher, tmp_path: Path, where: str, says: str
):
    program = tmp_path / "hangs.py"
    program.write_text(HANGS)
    flags = ("--save-seconds", "2", "--stall-seconds", "2", "--restarts", "0")
    pod = launch.start(*flags, str(program), where)
    assert pod.wait() == 75, pod.log
    assert pod.termination()["class"] == "stalled"
    assert pod.last_line.startswith(says)


def test_a_first_step_that_never_comes_is_a_stall(launch: Launcher):
    pod = launch.start("--start-seconds", "2", "--restarts", "0", "training.py", "1", "wait")
    assert pod.wait() == 75, pod.log
    assert pod.termination()["class"] == "stalled"
