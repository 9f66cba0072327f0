"""Real `dtj-run` processes on loopback.

Those of `launch` are forks of one process that has imported TensorFlow (warm.py); those of `launch_anew` start as in a
container, each its own Python with a zygote that imports.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.contract import SIGNATURE_HEADER
from dtj_trainer.supervisor.http.auth import Authenticator
from tests.support import source_roots
from tests.support.ports import free_port
from tests.trainer.training.launch import ForkedProgram, fork_server

PROGRAMS = Path(__file__).parent / "programs"
PATIENCE = 90.0

Process = subprocess.Popen[bytes] | ForkedProgram
Start = Callable[[Sequence[str], dict[str, str], Path], Process]
"""Arguments of `dtj-run`, environment, and the file for all that is printed → the process."""


def anew(arguments: Sequence[str], environment: dict[str, str], log: Path) -> Process:
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "dtj_trainer", *arguments],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=PROGRAMS,
        )


def warm(arguments: Sequence[str], environment: dict[str, str], log: Path) -> Process:
    program = Path(__file__).with_name("warm.py")
    return fork_server().spawn(program, arguments, environment, directory=PROGRAMS, output=log)


@dataclass
class Pod:
    """One `dtj-run` with its own log, termination message and HTTP port."""

    folder: Path
    http: int
    process: Process
    started: float = field(default_factory=time.monotonic)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    @property
    def said(self) -> list[str]:
        """What the program printed behind `SAY `, in lines that are whole: each word of one is written by itself."""
        return [line[4:] for line in self.log.rpartition("\n")[0].splitlines() if line.startswith("SAY ")]

    @property
    def last_line(self) -> str:
        return [line[5:] for line in self.log.splitlines() if line.startswith("dtj: ")][-1]

    def training_process(self) -> int:
        """Pid of the newest training process, as its program prints it."""
        return int([line for line in self.said if line.startswith("begin ")][-1].split()[1])

    def children(self) -> list[int]:
        """Pids of the supervisor's own: the zygote."""
        return children(self.process.pid)

    def youngest(self) -> int:
        """Pid of the last in the line of children: the process that trains or serves."""
        found, generation = self.process.pid, [self.process.pid]
        while generation:
            found = generation[-1]
            generation = [child for pid in generation for child in children(pid)]
        return found

    def wait(self, seconds: float = PATIENCE) -> int:
        return self.process.wait(seconds)

    def termination(self) -> dict[str, object]:
        return dict(json.loads((self.folder / "termination").read_bytes()))

    def ask(self, path: str, uid: str) -> int:
        """POST as `dtj-run checkpoint` does in worker 0 of that job; returns the HTTP status."""
        header = Authenticator(uid, Task("worker", 0), ()).sign_command("POST", path)
        return self.get(path, post=b"", headers={SIGNATURE_HEADER: header})[0]

    def get(self, path: str, *, post: bytes | None = None, headers: dict[str, str] | None = None) -> tuple[int, str]:
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}{path}", data=post, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=5) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def status(self) -> dict[str, object]:
        return dict(json.loads(self.get("/status")[1]))


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def processes(pod: Pod) -> list[int]:
    """The supervisor's and all below it, as when a whole node stops."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    found = [pod.process.pid]
    for above in found:
        found += [pid for pid, parent in parents.items() if parent == above]
    return found


def until(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Wait for a condition; an assertion error names what did not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


@dataclass
class Launcher:
    """Starts pods, and ends what is left of them."""

    tmp_path: Path
    begin: Start
    pods: list[Pod] = field(default_factory=list)

    def start(self, *arguments: str, environment: dict[str, str] | None = None, http: int | None = None) -> Pod:
        folder = self.tmp_path / f"pod{len(self.pods)}"
        folder.mkdir()
        port = http or free_port()
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("DTJ_", "TF_"))}
        process = self.begin(
            ["--port", str(port), *arguments],
            {
                **clean,
                "PYTHONPATH": source_roots.TRAINER,
                "TF_CPP_MIN_LOG_LEVEL": "2",
                "CUDA_VISIBLE_DEVICES": "-1",
                "DTJ_TERMINATION_LOG": str(folder / "termination"),
                **(environment or {}),
            },
            folder / "log",
        )
        self.pods.append(Pod(folder, port, process))
        return self.pods[-1]

    def cluster(
        self, *arguments: str, workers: int = 2, environments: dict[int, dict[str, str]] | None = None
    ) -> list[Pod]:
        """All workers of one MultiWorkerMirrored job."""
        tasks = self.tasks(workers)
        return [
            self.start(*arguments, http=http, environment={**environment, **(environments or {}).get(index, {})})
            for index, (http, environment) in enumerate(tasks)
        ]

    def tasks(self, workers: int = 2) -> list[tuple[int, dict[str, str]]]:
        """HTTP port and environment of each worker."""
        addresses = [f"127.0.0.1:{free_port()}" for _ in range(workers)]
        ports = {address: free_port() for address in addresses}
        return [
            (
                ports[address],
                {
                    "TF_CONFIG": json.dumps(
                        {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
                    ),
                    "DTJ_UID": "uid-1",
                    "DTJ_ROLE": "worker",
                    "DTJ_INDEX": str(index),
                    "DTJ_STRATEGY": '{"type": "MultiWorkerMirrored"}',
                    "DTJ_PEER_PORTS": json.dumps(ports),
                },
            )
            for index, address in enumerate(addresses)
        ]

    def close(self) -> None:
        for pod in self.pods:
            if pod.process.poll() is None:
                pod.process.send_signal(signal.SIGCONT)
                pod.process.kill()
            pod.wait()


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launcher]:
    launcher = Launcher(tmp_path, warm)
    yield launcher
    launcher.close()


@pytest.fixture
def launch_anew(tmp_path: Path) -> Iterator[Launcher]:
    launcher = Launcher(tmp_path, anew)
    yield launcher
    launcher.close()
