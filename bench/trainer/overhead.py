"""What `dtj-run` costs a training: supervisor, metrics that somebody asks for, event files and checkpoints at defaults.

Three processes run the same program (`steady.py`): plain Python; Python with the memory settings of `dtj-run` (decision
043), which would hide what it costs; `dtj-run` with a checkpoint directory. They take turns of one epoch, back and
forth, so that what the machine does meanwhile hits all. Processor time is that of a side's whole tree of processes,
saves included; they come thrice as often as usual in proportion, because their clock runs on in the others' turns.
"""

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.trainer.processes import bring_up, metrics
from dtj_trainer.supervisor.spawning import KEEP_MEMORY
from e2e.cluster.control_plane import free_port

ROOT = Path(__file__).resolve().parents[2]
STARTS, SECONDS = 2, 65.0
"""Two processes of one program differ by a percent or two, so each side is started anew; long enough for a save."""
WARM = 3
"""Epochs of each side before the first turn."""
PATIENCE = 120.0
SAVE_EVERY = 60.0
"""Seconds between two checkpoints, by default."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One epoch, in seconds."""

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Side:
    """A program that trains an epoch when it is told to."""

    process: subprocess.Popen[bytes]
    told: socket.socket
    port: int | None = None
    """Of its supervisor, if it has one: somebody asks for /metrics in each turn."""

    def turn(self) -> Turn:
        cpu, wall = cpu_seconds(self.process.pid), time.perf_counter()
        self.told.send(b".")
        if self.port is not None:
            page(self.port)
        self.told.recv(1)
        return Turn(time.perf_counter() - wall, cpu_seconds(self.process.pid) - cpu)

    def close(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def start(folder: Path, flags: list[str], environment: Mapping[str, str], port: int | None = None) -> Side:
    """The program under `flags`, ready for its first epoch; `folder` is for this one alone."""
    path = str(folder / "turns")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DTJ_", "TF_", "MALLOC_"))}
    with socket.socket(socket.AF_UNIX) as listening, (folder / "log").open("wb") as log:
        listening.bind(path)
        listening.listen()
        listening.settimeout(PATIENCE)
        process = subprocess.Popen(
            [sys.executable, *flags, "-m", "bench.trainer.steady", path],
            env={**clean, "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", **environment},
            stdout=log,
            stderr=log,
            cwd=ROOT,
            start_new_session=True,
        )
        try:
            told, _ = listening.accept()
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            raise SystemExit(f"no training began:\n{(folder / 'log').read_text()[-3000:]}") from None
    told.settimeout(PATIENCE)
    told.recv(1)
    return Side(process, told, port)


def supervised(folder: Path) -> Side:
    port = free_port()
    environment = {
        "DTJ_CHECKPOINT": json.dumps({"directory": str(folder / "state")}),
        "DTJ_TERMINATION_LOG": str(folder / "termination"),
    }
    return start(folder, ["-m", "dtj_trainer", "--port", str(port)], environment, port)


def page(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def cpu_seconds(pid: int) -> float:
    """Processor time of a process and of all that descend from it and live."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    children = [
        child for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(cpu_seconds(int(child)) for child in children)


def measure() -> dict[str, Any]:
    """In percent of the time of the program alone; and the seconds of each phase of the last start under `dtj-run`."""
    starts, phases = [], {}
    for _ in range(STARTS):
        rounds, found = one_start()
        starts.append(figures(rounds, found))
        phases = bring_up(found)
    medians = {name: statistics.median(each[name] for each in starts) for name in starts[0]}
    spread = sorted(each["overhead_percent"] for each in starts)
    return {**medians, "overhead_percent_by_start": spread, "bringup_seconds": phases}


def one_start() -> tuple[list[dict[str, Turn]], dict[str, float]]:
    """Rounds of turns, and the metrics at their end."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        folders = {side: Path(name) / side for side in ("plain", "alone", "ours")}
        for folder in folders.values():
            folder.mkdir()
        sides = {
            "plain": running.enter_context(closing(start(folders["plain"], [], {}))),
            "alone": running.enter_context(closing(start(folders["alone"], [], KEEP_MEMORY))),
            "ours": running.enter_context(closing(supervised(folders["ours"]))),
        }
        there, back = list(sides.items()), list(reversed(sides.items()))
        for _ in range(WARM):
            for side in sides.values():
                side.turn()
        ends = time.monotonic() + SECONDS
        rounds = []
        while time.monotonic() < ends:
            rounds += [{name: side.turn() for name, side in order} for order in (there, back)]
        assert sides["ours"].port is not None
        return rounds, metrics(page(sides["ours"].port))


def figures(rounds: list[dict[str, Turn]], found: Mapping[str, float]) -> dict[str, float]:
    """Wall: medians over the rounds, and a save counted as if training stood still from its begin until it is complete.
    Processor time: sums over all turns.
    """
    save = found["dtj_checkpoint_seconds_sum"] / found["dtj_checkpoint_seconds_count"]
    spent = {name: sum(turns[name].cpu for turns in rounds) for name in rounds[0]}
    beside = statistics.median(turns["ours"].wall / turns["alone"].wall for turns in rounds) - 1
    return {
        "overhead_percent": 100 * (beside + save / SAVE_EVERY),
        "overhead_cpu_percent": 100 * (spent["ours"] / spent["alone"] - 1),
        "overhead_rounds": len(rounds),
        "ratio_plain_python": statistics.median(turns["plain"].wall / turns["ours"].wall for turns in rounds),
        "save_seconds": save,
    }
