"""A ParameterServer job under `dtj-run`: one chief, two workers, one ps, all real, on loopback."""

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.ports import free_port, free_ports
from tests.trainer.supervisor.conftest import Launcher, Pod, launch, processes, until
from tests.trainer.training import launch as launching
from tests.trainer.training.launch import ForkedProgram

pytestmark = pytest.mark.trainer
__all__ = ["launch"]

PROGRAMS = Path(__file__).parent / "programs"
PROGRAM = str(PROGRAMS / "servers.py")
TASKS = (("ps", 0), ("worker", 0), ("worker", 1), ("chief", 0))


def job(launch: Launcher, directory: Path, **environment: str) -> dict[str, Pod]:
    addresses = {task: f"127.0.0.1:{free_port()}" for task in TASKS}
    ports = {address: free_port() for address in addresses.values()}
    cluster: dict[str, list[str]] = {}
    for (role, _), address in sorted(addresses.items()):
        cluster.setdefault(role, []).append(address)
    return {
        f"{role}{index}": launch.start(
            "--threads",
            "1",
            PROGRAM,
            http=ports[addresses[role, index]],
            environment={
                "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}}),
                "DTJ_UID": "u1",
                "DTJ_ROLE": role,
                "DTJ_INDEX": str(index),
                "DTJ_STRATEGY": '{"type": "ParameterServer"}',
                "DTJ_PEER_PORTS": json.dumps(ports),
                "DTJ_CHECKPOINT": json.dumps({"directory": str(directory), "everySteps": 20, "keep": 2}),
                **environment,
            },
        )
        for role, index in TASKS
    }


def told(pod: Pod) -> list[dict[str, Any]]:
    return [json.loads(line) for line in pod.said]


def test_a_lost_worker_is_replaced_without_the_chief_and_a_lost_ps_costs_steps_since_the_checkpoint(launch, tmp_path):
    pods = job(launch, tmp_path / "state", TEST_EPOCHS="30", TEST_PAUSE="0.2")
    chief = pods["chief0"]
    until(lambda: len(chief.said) >= 2, "the chief did not train")
    first = told(chief)[0]["pid"]

    os.kill(pods["worker1"].youngest(), signal.SIGKILL)
    before = len(chief.said)
    until(lambda: len(chief.said) >= before + 3, "the chief did not go on without worker 1")
    until(lambda: pods["worker1"].status()["restarts"] == 1, "worker 1 was not started again")
    assert chief.status()["restarts"] == 0
    assert {each["pid"] for each in told(chief)} == {first}

    os.kill(pods["ps0"].youngest(), signal.SIGKILL)
    until(lambda: chief.status()["restarts"] == 1, "the chief did not notice the lost ps")
    assert chief.wait() == 0
    end = told(chief)[-1]
    assert end["step"] == end["iterations"] == 600
    assert end["resumed_from"] % 20 == 0
    assert end["resumed_from"] > 0
    assert end["metrics"]["loss"] < 0.1
    assert end["metrics"]["val_hits"] == end["hits"]
    assert "/job:ps" in end["device"]
    assert [pod.process.poll() for name, pod in pods.items() if name != "chief0"] == [None, None, None]
    assert json.loads((tmp_path / "state" / "done.json").read_text())["step"] == 600


Task = tuple[str, int]


@contextmanager
def plain_processes(
    size: dict[str, int], program: str, environment: dict[str, str]
) -> Iterator[dict[Task, ForkedProgram]]:
    """A cluster without `dtj-run`; those that serve are ended at the end."""
    ports = iter(free_ports(sum(size.values())))
    cluster = {role: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for role, count in size.items()}
    born = {
        (role, index): launching.start(
            program,
            environment={
                **environment,
                "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}}),
            },
            folder=PROGRAMS,
        )
        for role, count in size.items()
        for index in range(count)
    }
    try:
        yield born
    finally:
        for (role, _), process in born.items():
            if role != "chief":
                os.kill(process.pid, signal.SIGKILL)


def chief_of(size: dict[str, int], program: str, environment: dict[str, str]) -> launching.Ended:
    with plain_processes(size, program, environment) as born:
        return launching.finish(born["chief", 0])


SIZE = {"ps": 2, "worker": 2, "chief": 1}


def test_a_step_of_ones_own_a_dataset_a_function_and_a_file_train_on_two_workers(tmp_path):
    rows = [f"{a / 10},{b / 10},{a / 10 - b / 5}" for a in range(10) for b in range(20)]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,y", *rows]) + "\n")
    said = chief_of(SIZE, "own_step.py", {"TEST_FIT": "1", "TEST_TABLE": str(tmp_path / "table.csv")}).said
    assert said["table"]["step"] == 160
    assert said["table"]["loss"] < 0.3
    assert said["ends"] == 2 * [said["ends"][0]]
    assert said["ends"][0].startswith("PreflightFailed: the data is empty or ended before the training did; ")
    assert said["step"] == 40
    assert said["metrics"]["val_error"] == pytest.approx(said["error"], rel=1e-4)
    assert said["metrics"]["double"] == pytest.approx(2 * said["metrics"]["loss"])
    assert said["fit"]["dataset"]["step"] == said["fit"]["function"]["step"] == 6
    assert (said["fit"]["dataset"]["updates"], said["fit"]["function"]["updates"]) == (6, 12)
    assert said["fit"]["function"]["loss"] < said["fit"]["dataset"]["loss"] < 0.1


def test_a_table_is_split_over_two_ps_and_keras_3_refuses_to_be():
    strategy = {"type": "ParameterServer", "variablePartitioner": {"type": "MinSize", "minShardBytes": 1024}}
    ended = chief_of(SIZE, "own_step.py", {"TEST_FIT": "1", "DTJ_STRATEGY": json.dumps(strategy)})
    said = ended.said
    assert said["shards"] == 2
    assert said["step"] == 40
    assert said["metrics"]["val_error"] == pytest.approx(said["error"], rel=1e-4)
    assert said["fit"]["dataset"].startswith("Keras 3 cannot train partitioned variables; ")


def test_a_model_of_keras_2_is_trained_with_its_table_split_over_two_ps(keras_2):
    strategy = {"type": "ParameterServer", "variablePartitioner": {"type": "MinSize", "minShardBytes": 1024}}
    environment = {"DTJ_STRATEGY": json.dumps(strategy), "TEST_KERAS_2": str(keras_2)}
    said = chief_of(SIZE, "keras_2.py", environment).said
    parts = {name: device for name, device in said["variables"].items() if "embeddings/part" in name}
    assert len(set(parts.values())) == 2
    assert said["loss"] < 0.01


def test_a_large_table_is_in_the_memory_of_the_ps_and_of_nobody_else(tmp_path):
    """Made, trained and saved; each ps holds half of it, and the others no more than TensorFlow and less than half."""
    strategy = {"type": "ParameterServer", "variablePartitioner": {"type": "MinSize", "maxShards": 2}}
    environment = {"DTJ_STRATEGY": json.dumps(strategy), **launching.checkpoint(tmp_path, everySteps=20)}
    with plain_processes(SIZE, "large_table.py", environment) as born:
        told = launching.finish(born["chief", 0]).said
        peak = {task: launching.peak_megabytes(process.pid) for task, process in born.items() if task != ("chief", 0)}
    for large in tmp_path.glob("ckpt-*"):  # pytest keeps the rest
        large.unlink()
    table = told["megabytes"]
    others = max(told["peak"], *(megabytes for (role, _), megabytes in peak.items() if role == "worker"))
    assert told["shards"] == 2
    assert others - launching.fork_server().megabytes() < table / 2
    assert all(megabytes - others > table / 2 for (role, _), megabytes in peak.items() if role == "ps")


def test_a_frozen_worker_is_named_by_the_chief_after_its_stall_time():
    environment = {"TEST_EPOCHS": "4000", "DTJ_STALL_SECONDS": "2"}
    with plain_processes({"ps": 1, "worker": 2, "chief": 1}, "servers.py", environment) as born:
        chief = born["chief", 0]
        until(lambda: chief.said.count("SAY ") >= 2, "the chief did not train")
        os.kill(born["worker", 1].pid, signal.SIGSTOP)
        ended = launching.finish(chief)
    assert ended.code == 75
    assert re.match(r"dtj: no step came back for \d s and worker 1 \(127.0.0.1:\d+\) does not answer", ended.exit_line)


def test_a_worker_pod_whose_processes_are_all_frozen_is_named_by_the_chief_after_its_stall_time(launch, tmp_path):
    pods = job(launch, tmp_path / "state", TEST_EPOCHS="4000", DTJ_STALL_SECONDS="3")
    until(lambda: len(told(pods["chief0"])) >= 2, "the chief did not train")
    frozen = processes(pods["worker1"])
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        assert pods["chief0"].wait(60) == 75, pods["chief0"].log
    finally:
        for pid in reversed(frozen):
            os.kill(pid, signal.SIGCONT)
    assert pods["chief0"].termination()["class"] == "peer-lost"
    assert re.match(r"worker 1 \(127.0.0.1:\d+\) is frozen", pods["chief0"].last_line), pods["chief0"].log


def test_a_server_that_does_not_come_is_named():
    size = {"ps": 1, "worker": 1, "chief": 1}
    ports = free_ports(3)
    cluster = {role: [f"127.0.0.1:{port}"] for role, port in zip(size, ports, strict=True)}
    environment = {
        "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "chief", "index": 0}}),
        "DTJ_START_SECONDS": "0.5",
    }
    ended = launching.run("servers.py", environment=environment, folder=PROGRAMS)
    assert ended.code == 75
    assert ended.exit_line.startswith(f"dtj: worker 0 (127.0.0.1:{ports[1]}) does not answer after 0.5 s; ")


def test_its_checkpoints_are_evaluated_beside_it_and_its_export_serves_anywhere(tmp_path):
    environment = {
        **launching.checkpoint(tmp_path / "state", everySteps=20, keep=2),
        "TEST_EPOCHS": "3",
        "TEST_EXPORT": str(tmp_path / "export"),
        "TEST_NORM": "1",
    }
    ended = chief_of({"ps": 1, "worker": 2, "chief": 1}, "servers.py", environment)
    trained = ended.said
    assert "/moving_mean' without waiting for one another; such statistics follow the data" in ended.output
    assert trained["statistics"] == [pytest.approx(1.0, abs=0.4), pytest.approx(9.0, abs=3.5)]
    place = {"TF_CONFIG": '{"cluster": {}, "task": {"type": "evaluator", "index": 0}}'}
    evaluated = launching.run("servers.py", environment={**environment, **place}, folder=PROGRAMS).said
    wanted = {name: value for name, value in trained["metrics"].items() if name.startswith("val_")}
    assert evaluated["metrics"] == pytest.approx(wanted, rel=1e-5)
    served = launching.run("serve.py", str(tmp_path / "export"), folder=PROGRAMS).said
    assert served["hits"] == trained["hits"] == trained["metrics"]["val_hits"]
