"""Two supervisors and a plain two-worker script on loopback: formed, broken, formed again."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support import source_roots
from tests.trainer.supervisor.conftest import Launcher, Pod, until

pytestmark = pytest.mark.trainer

NO_NAME = "a" * 64
"""No part of a name has so many letters."""


def firsts(pods: list[Pod]) -> list[int]:
    return [pod.said.count("first") for pod in pods]


def trains(pods: list[Pod], times: int) -> None:
    until(lambda: min(firsts(pods)) >= times, f"not all trained {times} times")


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_worker_is_restarted_in_place_and_all_train_again(launch: Launcher, victim: int):
    pods = launch.cluster("tutorial.py", "100000")
    trains(pods, 1)
    os.kill(pods[victim].training_process(), signal.SIGKILL)
    trains(pods, 2)
    assert [pod.status()["restarts"] for pod in pods] == [1, 1]
    assert 'dtj_restarts_total{cause="killed"} 1' in pods[victim].get("/metrics")[1]
    assert 'dtj_restarts_total{cause="peer-lost"} 1' in pods[1 - victim].get("/metrics")[1]


def test_fit_of_keras_2_is_restarted_in_place_measured_and_trains_to_its_end(launch_anew: Launcher, keras_2: Path):
    importing = {"PYTHONPATH": f"{source_roots.TRAINER}{os.pathsep}{keras_2}"}
    pods = launch_anew.cluster("keras_2.py", "20", environments=dict.fromkeys(range(2), importing))
    trains(pods, 1)
    os.kill(pods[1].training_process(), signal.SIGKILL)
    trains(pods, 2)
    for pod in pods:
        (resident,) = (line for line in pod.get("/metrics")[1].splitlines() if line.startswith("process_resident_"))
        assert float(resident.split()[-1]) > 0
    assert [pod.wait() for pod in pods] == [0, 0]
    assert [pod.termination()["restarts"] for pod in pods] == [1, 1]
    assert pods[0].said[-1] == pods[1].said[-1]
    assert pods[0].said[-1].startswith("weights ")


def test_a_frozen_worker_is_noticed_by_its_peers_and_replaced_by_its_own_supervisor(launch: Launcher):
    pods = launch.cluster("tutorial.py", "100000")
    trains(pods, 1)
    os.kill(pods[1].training_process(), signal.SIGSTOP)
    trains(pods, 2)


def test_a_pod_whose_name_leads_nowhere_yet_is_met_where_it_calls_from_and_so_is_its_successor(launch: Launcher):
    tasks = launch.tasks()
    _, survivor = tasks[0]
    address = json.loads(survivor["TF_CONFIG"])["cluster"]["worker"][1]
    for name in ("TF_CONFIG", "DTJ_PEER_PORTS"):
        survivor[name] = survivor[name].replace(address, f"{NO_NAME}:{address.rpartition(':')[2]}")
    pods = [launch.start("tutorial.py", "100000", http=http, environment=env) for http, env in tasks]
    trains(pods, 1)
    pods[1].process.send_signal(signal.SIGTERM)
    assert pods[1].wait() == 143
    http, environment = tasks[1]
    pods[1] = launch.start("tutorial.py", "100000", http=http, environment={**environment, "DTJ_ATTEMPT": "1"})
    until(lambda: firsts(pods) == [2, 1], "the new pod did not train with the old one")


@pytest.mark.matrix
def test_a_finished_job_ends_with_0_everywhere(launch: Launcher):
    pods = launch.cluster("tutorial.py", "20")
    assert [pod.wait() for pod in pods] == [0, 0]
    assert all(pod.said[-1] == "end" for pod in pods)


def test_a_pod_of_a_finished_job_that_starts_alone_ends_with_0_and_waits_for_nobody(launch: Launcher, tmp_path: Path):
    done = {"uid": "uid-1", "step": 7, "metrics": {"loss": 0.5}}
    (tmp_path / "done.json").write_text(json.dumps(done))
    http, environment = launch.tasks()[1]
    saving = {"DTJ_CHECKPOINT": json.dumps({"directory": str(tmp_path)})}
    pod = launch.start("--start-seconds", "300", "fitting.py", http=http, environment={**environment, **saving})
    assert pod.wait() == 0, pod.log
    told = pod.termination()
    assert (told["class"], told["step"], told["checkpointStep"], told["metrics"]) == ("done", 7, 7, {"loss": 0.5})
    assert "dtj: finished at step 7 already" in pod.log
    assert pod.said == []


class _Forbidden(BaseHTTPRequestHandler):
    """A NameNode that lets nobody in."""

    def do_GET(self) -> None:
        self.send_response(403)
        self.end_headers()
        self.wfile.write(b'{"RemoteException": {"exception": "AccessControlException", "message": "you may not"}}')

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def forbidden() -> Iterator[str]:
    """A directory that nobody may read."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Forbidden) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        yield f"hdfs://127.0.0.1:{server.server_address[1]}/checkpoints"
        server.shutdown()


def test_a_checkpoint_directory_that_may_not_be_read_is_said_by_the_program(
    launch: Launcher, tmp_path: Path, forbidden: str
):
    program = tmp_path / "program.py"
    program.write_text("import dtj\ndtj.init()\n")
    environment = {"DTJ_CHECKPOINT": json.dumps({"directory": forbidden})}
    pods = launch.cluster("--restarts", "0", str(program), environments=dict.fromkeys(range(2), environment))
    for pod in pods:
        assert pod.wait() == 1, pod.log
        assert pod.termination()["class"] == "user-error"
        assert pod.last_line == "PermissionError: you may not (program.py, line 2)"


def test_a_user_error_in_one_worker_ends_that_worker_and_the_others_wait(launch: Launcher, tmp_path: Path):
    broken = tmp_path / "broken.py"
    text = (Path(__file__).parent / "programs" / "tutorial.py").read_text()
    broken.write_text(
        text.replace(
            "    time.sleep(0.01)",
            "    if number == 3 and 'index\": 1' in os.environ['TF_CONFIG']:\n        raise ValueError('mine')",
        )
    )
    pods = launch.cluster("--start-seconds", "2", str(broken), "100000")
    assert pods[1].wait() == 1
    assert pods[1].termination()["class"] == "user-error"
    assert pods[0].wait() == 75
    assert pods[0].termination()["class"] == "peer-lost"
    assert "worker 1" in pods[0].last_line


def test_a_peer_whose_name_does_not_resolve_is_named(launch: Launcher):
    config = '{"cluster": {"worker": ["127.0.0.1:1111", "w1.invalid:1111"]}, "task": {"type": "worker", "index": 0}}'
    pod = launch.start("--start-seconds", "2", "tutorial.py", "1", environment={"TF_CONFIG": config})
    assert pod.wait() == 75
    assert pod.termination()["class"] == "preflight-failed"
    assert "w1.invalid" in pod.last_line
    assert "does not resolve" in pod.last_line


def test_a_peer_of_another_job_is_not_joined(launch: Launcher):
    stranger = {"DTJ_UID": "uid-2", "DTJ_START_SECONDS": "5"}  # still there when the other one tells why it gave up
    pods = launch.cluster("tutorial.py", "1", environments={0: {"DTJ_START_SECONDS": "2"}, 1: stranger})
    assert [pod.wait() for pod in pods] == [75, 75]
    assert "another job" in pods[0].last_line


def test_another_tensorflow_on_a_peer_ends_all(launch_anew: Launcher, tmp_path: Path):
    other = tmp_path / "other"
    for name in ("tensorflow", "tensorflow_cpu"):
        folder = other / f"{name}-2.20.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 2.20.0\n")
    importing = {"PYTHONPATH": f"{source_roots.TRAINER}{os.pathsep}{other}"}
    pods = launch_anew.cluster("tutorial.py", "1", environments={1: importing})
    assert [pod.wait() for pod in pods] == [1, 1]
    assert {str(pod.termination()["class"]) for pod in pods} == {"preflight-failed"}
    assert "2.20.0" in pods[0].last_line


def test_sigterm_while_waiting_for_peers_is_preempted_at_once(launch: Launcher):
    http, environment = launch.tasks()[0]
    pod = launch.start("tutorial.py", "1", http=http, environment=environment)
    until(lambda: (pod.folder / "log").exists() and answers(pod), "no answer on HTTP")
    asked = time.monotonic()
    pod.process.terminate()
    assert pod.wait() == 143
    assert time.monotonic() - asked < 3
    assert pod.termination()["class"] == "preempted"


def answers(pod: Pod) -> bool:
    try:
        return pod.get("/healthz")[0] == 200
    except OSError:
        return False


def test_variables_begin_with_the_leaders_values(launch: Launcher):
    pods = launch.cluster("first_values.py")
    until(lambda: all(pod.said for pod in pods), "not all said their values")
    said = [pod.said[-1] for pod in pods]
    assert said[0] == said[1], said
    assert said[0].split()[2:] == ["1.000000", "7.000000", "1.000000", "30"]
