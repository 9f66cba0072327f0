"""Strangers at port 9401 of running jobs: what they send has no effect, and the pod's own people are heard."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.contract import SIGNATURE_HEADER, job_hash
from dtj_trainer.supervisor.http.auth import Authenticator
from dtj_trainer.supervisor.http.server import BODY_BYTES, CONNECTIONS
from dtj_trainer.supervisor.membership import Member, MemberState
from tests.support import source_roots
from tests.support.ports import free_port
from tests.trainer.supervisor.conftest import Launcher, Pod, until

pytestmark = pytest.mark.trainer

UID = "uid-1"
VICTIM, PEER = Task("worker", 0), Task("worker", 1)
FORGED = Member(job_hash(UID), 7, PEER, "forged", "1.0.0", generation=99, state=MemberState.LEAVING, sequence=1000)
"""It ends the victim if it is believed: another TensorFlow, another attempt, another generation."""
REQUESTS = 10_000


def send(port: int, request: bytes) -> str:
    """Return the status of the answer; "cut" where there is none of HTTP."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as stranger:
            stranger.sendall(request)
            answer = stranger.recv(100).decode(errors="replace")
            return answer.split(" ")[1] if answer.startswith("HTTP/") else "cut"
    except OSError:
        return "cut"


def post(path: str, body: bytes, header: str = "", *, length: str = "") -> bytes:
    signed = f"{SIGNATURE_HEADER}: {header}\r\n" if header else ""
    return f"POST {path} HTTP/1.0\r\n{signed}Content-Length: {length or len(body)}\r\n\r\n".encode() + body


def strange_requests() -> dict[str, bytes]:
    body = FORGED.to_json()
    peer, other_job = Authenticator(UID, PEER, ()), Authenticator("another", PEER, ())
    hour_ago = Authenticator(UID, PEER, (), lambda: time.time_ns() - 3600 * 10**9)
    outsider = Authenticator(UID, Task("worker", 7), ())
    signed = peer.sign("POST", "/peer", "worker-0", body)
    checkpoint = other_job.sign_command("POST", "/checkpoint")
    return {
        "unsigned": post("/peer", body),
        "unsigned checkpoint": post("/checkpoint", b""),
        "the job's hash as its secret": post(
            "/peer", body, Authenticator(job_hash(UID), PEER, ()).sign("POST", "/peer", "worker-0", body)
        ),
        "of another job": post("/peer", body, other_job.sign("POST", "/peer", "worker-0", body)),
        "a command of another job": post("/checkpoint", b"", checkpoint),
        "a profile of another job": post("/profile?steps=3", b"", checkpoint),
        "of no member": post("/peer", body, outsider.sign("POST", "/peer", "worker-0", body)),
        "for another member": post("/peer", body, peer.sign("POST", "/peer", "worker-1", body)),
        "about somebody else": post(
            "/peer",
            other := replace(FORGED, task=VICTIM).to_json(),
            peer.sign("POST", "/peer", "worker-0", other),
        ),
        "another body": post("/peer", body.replace(b"99", b"98"), signed),
        "an hour old": post("/peer", body, hour_ago.sign("POST", "/peer", "worker-0", body)),
        "no signature": post("/peer", body, "worker-1 worker-0 0 0"),
        "no member": post("/peer", b"[" * 4000, peer.sign("POST", "/peer", "worker-0", b"[" * 4000)),
        "a large body": post("/peer", b"x" * (BODY_BYTES + 1)),
        "a body without end": post("/peer", b"", length="99999999999999999999"),
        "a negative body": post("/peer", b"", length="-1"),
        "no HTTP": b"\x16\x03\x01" + os.urandom(200) + b"\r\n\r\n",
        "an unknown path": post("/shutdown", b""),
        "the member": b"GET /peer HTTP/1.0\r\n\r\n",
    }


def untouched(pods: list[Pod]) -> bool:
    return all(pod.status()["restarts"] == 0 and pod.said.count("first") == 1 for pod in pods)


def test_what_strangers_send_has_no_effect_on_a_job_be_it_one_request_or_ten_thousand(launch: Launcher):
    pods = launch.cluster("tutorial.py", "100000")
    until(lambda: all("first" in pod.said for pod in pods), "not all train")
    kinds = strange_requests()
    answers = {kind: send(pods[0].http, request) for kind, request in kinds.items()}
    assert set(answers.values()) <= {"400", "403", "404", "413", "cut"}, answers
    assert untouched(pods)
    counted: Counter[str] = Counter()
    most_threads = 0

    def flood(share: list[bytes]) -> None:
        counted.update(Counter(send(pods[0].http, request) for request in share))

    requests = [*kinds.values()] * (REQUESTS // len(kinds) + 1)
    crowd = [threading.Thread(target=flood, args=(requests[number:REQUESTS:8],)) for number in range(8)]
    for thread in crowd:
        thread.start()
    while any(thread.is_alive() for thread in crowd):
        most_threads = max(most_threads, len([*Path(f"/proc/{pods[0].process.pid}/task").iterdir()]))
        time.sleep(0.1)
    assert sum(counted.values()) == REQUESTS
    assert set(counted) <= {"400", "403", "404", "413", "cut"}, counted
    assert most_threads < CONNECTIONS + 20
    assert untouched(pods)
    os.kill(pods[1].training_process(), signal.SIGKILL)  # and the peers still hear each other
    until(lambda: all(pod.said.count("first") == 2 for pod in pods), "not all train again")


class RecordingProxy:
    """Stands between two pods, and keeps what is sent."""

    def __init__(self, target: int) -> None:
        self.sent: list[bytes] = []
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(connection,), daemon=True).start()

    def _carry(self, connection: socket.socket) -> None:
        with connection:
            text = b""
            while b"\r\n\r\n" not in text or not text.endswith(b"}"):
                if not (more := connection.recv(65536)):
                    return
                text += more
            self.sent.append(text)
            with socket.create_connection(("127.0.0.1", self._target), timeout=5) as there:
                there.sendall(text)
                while more := there.recv(65536):
                    connection.sendall(more)

    def close(self) -> None:
        self._server.close()


def test_what_a_peer_has_said_is_not_heard_again(launch: Launcher):
    tasks = launch.tasks()
    (victim, _), (_, peer) = tasks
    proxy = RecordingProxy(victim)
    peer["DTJ_PEER_PORTS"] = peer["DTJ_PEER_PORTS"].replace(f"{victim}", f"{proxy.port}")
    pods = [launch.start("tutorial.py", "100000", http=http, environment=env) for http, env in tasks]
    until(lambda: all("first" in pod.said for pod in pods), "not all train")
    os.kill(pods[1].training_process(), signal.SIGKILL)
    until(lambda: all(pod.said.count("first") == 2 for pod in pods), "not all train again")
    assert len(proxy.sent) > 3
    assert {send(victim, said) for said in proxy.sent} == {"403"}
    time.sleep(0.5)
    assert [pod.status()["restarts"] for pod in pods] == [1, 1]
    proxy.close()


def test_the_uid_is_shown_nowhere(launch: Launcher):
    pods = launch.cluster("reporter.py", "2000", environments={n: {"DTJ_UID": "the-secret"} for n in range(2)})
    until(lambda: all(pod.said and pod.status()["step"] for pod in pods), "no step")
    for path in ("/status", "/metrics", "/healthz", "/readyz", "/peer"):
        assert "the-secret" not in pods[0].get(path)[1]
    assert pods[0].status()["job"] == job_hash("the-secret")
    for pod in pods:
        pod.process.terminate()
    for pod in pods:
        assert pod.wait() == 42
        assert "the-secret" not in pod.log
        assert "the-secret" not in json.dumps(pod.termination())


def dtj_run(pod: Pod, *words: str, uid: str = UID, index: int = 0) -> tuple[int, str]:
    """Run `dtj-run …` in the pod of a worker, as `kubectl exec` does."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": source_roots.TRAINER,
        "DTJ_PORT": str(pod.http),
        "DTJ_UID": uid,
        "DTJ_ROLE": "worker",
        "DTJ_INDEX": str(index),
        "DTJ_TERMINATION_LOG": str(pod.folder / "termination"),
    }
    ended = subprocess.run(
        [sys.executable, "-m", "dtj_trainer", *words], env=environment, capture_output=True, text=True, check=False
    )
    return ended.returncode, ended.stdout + ended.stderr


def test_people_ask_for_a_checkpoint_of_all_replicas_and_for_a_profile_inside_a_pod(launch: Launcher):
    pods = launch.cluster("reporter.py", "20000")
    until(lambda: all(pod.said and pod.status()["step"] for pod in pods), "no step")
    assert dtj_run(pods[1], "checkpoint", index=1) == (0, "dtj: a checkpoint is being saved by all replicas\n")
    until(lambda: all(pod.status()["lastCheckpointStep"] for pod in pods), "not all saved")
    code, said = dtj_run(pods[1], "checkpoint", index=1)
    assert (code, "less than a minute ago" in said, said.count("\n")) == (1, True, 1)
    code, said = dtj_run(pods[0], "checkpoint", uid="another")
    assert (code, "refused the signature" in said, said.count("\n")) == (1, True, 1)
    assert dtj_run(pods[0], "profile", "--steps", "3")[0] == 0
    assert dtj_run(pods[0], "profile", "--steps", "0")[0] == 1
    for wrong in (("profile", "--stops", "3"), ("checkpoint", "now"), ("checkpoint", "--port", "x")):
        code, said = dtj_run(pods[0], *wrong)
        assert (code, "usage: dtj-run" in said, said.count("\n")) == (2, True, 1), said
    pods[0].http = free_port()
    code, said = dtj_run(pods[0], "checkpoint")
    assert (code, "nothing answers at port" in said, said.count("\n")) == (1, True, 1)


def test_pods_whose_clocks_differ_say_so_with_both_times(launch_anew: Launcher, tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text(
        "import time\nreal = time.time_ns\ntime.time_ns = lambda: real() + 60_000_000_000\n"
    )
    ahead = {"PYTHONPATH": f"{source_roots.TRAINER}{os.pathsep}{tmp_path}"}
    pods = launch_anew.cluster("tutorial.py", "1", environments={1: ahead})
    until(lambda: any(pod.process.poll() is not None for pod in pods), "none has ended")
    number, pod = next((number, pod) for number, pod in enumerate(pods) if pod.process.poll() is not None)
    assert pod.wait() == 75, pod.log  # the other one, if it has not heard yet, meets the pod that follows
    assert pod.termination()["class"] == "preflight-failed"
    assert f"worker {1 - number} cannot be joined: its clock says" in pod.last_line
    assert "synchronize the clocks" in pod.last_line
