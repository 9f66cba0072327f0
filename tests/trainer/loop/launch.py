"""Starts programs with real TensorFlow, alone or as a cluster on loopback, and reads what they print."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    def last_word(self) -> str:
        """The last line for people."""
        lines = [line for line in self.output.splitlines() if line.startswith("dtj: ")]
        assert lines, self.output[-4000:]
        return lines[-1]


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def checkpoint(directory: Path, **settings: Any) -> dict[str, str]:
    """The environment of a job with checkpoints."""
    return {"DTJ_CHECKPOINT": json.dumps({"directory": str(directory), "everySeconds": 0, **settings})}


def start(program: str, *arguments: str, environment: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("DTJ_", "TF_"))}
    return subprocess.Popen(
        [sys.executable, str(PROGRAMS / program), *arguments],
        env={
            **inherited,
            "PYTHONPATH": str(ROOT / "trainer-image"),
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "DTJ_THREADS": "1",
            **(environment or {}),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> Ended:
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
    return Ended(process.returncode, output)


def run(program: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Ended:
    return finish(start(program, *arguments, environment=environment))


def start_workers(
    count: int, program: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> "list[subprocess.Popen[str]]":
    addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
    return [
        start(
            program,
            *arguments,
            environment={
                **(environment or {}),
                "TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}),
            },
        )
        for index in range(count)
    ]


def run_workers(
    count: int, program: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> Sequence[Ended]:
    processes = start_workers(count, program, *arguments, environment=environment)
    return [finish(process) for process in processes]
