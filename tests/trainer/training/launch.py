"""Starts programs with real TensorFlow, alone or as a cluster on loopback, and reads what they print."""

import atexit
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.support import source_roots
from tests.support.ports import free_ports

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[3]
SECONDS = 150


@dataclass(frozen=True)
class Ended:
    """One process that has ended. `said` is the JSON of its last line that starts with `TEST `."""

    code: int
    output: str

    @property
    def said(self) -> dict[str, Any]:
        lines = [line for line in self.output.splitlines() if line.startswith("TEST ")]
        assert lines, self.output[-4000:]
        told: dict[str, Any] = json.loads(lines[-1].removeprefix("TEST "))
        return told

    @property
    def exit_line(self) -> str:
        """The last line for people."""
        lines = [line for line in self.output.splitlines() if line.startswith("dtj: ")]
        assert lines, self.output[-4000:]
        return lines[-1]


def peak_megabytes(pid: int) -> float:
    """The most memory that a running process has had, shared pages included."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def checkpoint(directory: Path, **settings: Any) -> dict[str, str]:
    """The environment of a job with checkpoints."""
    return {"DTJ_CHECKPOINT": json.dumps({"directory": str(directory), "everySeconds": 0, **settings})}


class ForkServer:
    """The process that has imported TensorFlow; made once, ends with the tests."""

    def __init__(self) -> None:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("DTJ_", "TF_"))}
        self._folder = tempfile.TemporaryDirectory(prefix="dtj-tests-")
        self._numbers = itertools.count()
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "forks.py")],
            env={
                **inherited,
                "PYTHONPATH": source_roots.TRAINER,
                "TF_CPP_MIN_LOG_LEVEL": "2",
                "CUDA_VISIBLE_DEVICES": "-1",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self.close)

    def spawn(
        self,
        program: Path,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        directory: Path | None = None,
        output: Path | None = None,
    ) -> "ForkedProgram":
        """Start `program` in `directory` (here unless said); what it prints goes into `output` (a file of ours)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        output = output or Path(self._folder.name) / f"{next(self._numbers)}"
        output.touch()
        order = {
            "program": str(program),
            "arguments": arguments,
            "environment": dict(environment),
            "directory": str(directory or Path.cwd()),
            "output": str(output),
        }
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return ForkedProgram(int(self._process.stdout.readline()), output)

    def megabytes(self) -> float:
        """What a process has in memory that has imported TensorFlow and done nothing."""
        return peak_megabytes(self._process.pid)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._folder.cleanup()


@dataclass(frozen=True)
class ForkedProgram:
    """A program that runs, or has ended; its methods are those of `subprocess.Popen`."""

    pid: int
    output: Path

    @property
    def said(self) -> str:
        """What it has printed so far."""
        return self.output.read_text(errors="replace")

    def poll(self) -> int | None:
        code = Path(f"{self.output}.code")
        return int(code.read_text()) if code.exists() else None

    def wait(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired([str(self.pid)], timeout)
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@cache
def fork_server() -> ForkServer:
    return ForkServer()


def start(
    program: str, *arguments: str, environment: Mapping[str, str] | None = None, folder: Path = PROGRAMS
) -> ForkedProgram:
    return fork_server().spawn(folder / program, arguments, {"DTJ_THREADS": "1", **(environment or {})})


def finish(program: ForkedProgram) -> Ended:
    try:
        code = program.wait(SECONDS)
    except subprocess.TimeoutExpired:
        program.kill()
        code = program.wait(SECONDS)
    return Ended(code, program.said)


def run(program: str, *arguments: str, environment: Mapping[str, str] | None = None, folder: Path = PROGRAMS) -> Ended:
    return finish(start(program, *arguments, environment=environment, folder=folder))


def start_workers(
    count: int,
    program: str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    leader: Callable[[str], str] = lambda address: address,
    folder: Path = PROGRAMS,
) -> list[ForkedProgram]:
    """`leader`: where the others find worker 0, of where it listens."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
    from_others = [leader(addresses[0]), *addresses[1:]]
    return [
        start(
            program,
            *arguments,
            folder=folder,
            environment={
                "DTJ_HEARTBEAT_SECONDS": "30",  # a busy machine is no lost peer
                **(environment or {}),
                "TF_CONFIG": json.dumps(
                    {
                        "cluster": {"worker": from_others if index else addresses},
                        "task": {"type": "worker", "index": index},
                    }
                ),
            },
        )
        for index in range(count)
    ]


def run_workers(
    count: int,
    program: str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    leader: Callable[[str], str] = lambda address: address,
    folder: Path = PROGRAMS,
) -> Sequence[Ended]:
    processes = start_workers(count, program, *arguments, environment=environment, leader=leader, folder=folder)
    return [finish(process) for process in processes]
