"""The overhead of `dtj-run`: supervisor, a scrape of the metrics, event files and checkpoints at their defaults.

Three processes run the same program (`steady.py`): plain Python; Python with the memory settings of `dtj-run` (decision
043), which would hide its overhead; `dtj-run` with a checkpoint directory. They alternate epoch by epoch, forwards and
backwards, so that other load on the machine hits all. Processor time is that of a variant's whole process tree, saves
included; these are three times as frequent as usual, because their timer also runs in the others' epochs.
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
from dtj_trainer.preload.spawn import KEEP_MEMORY
from e2e.cluster.control_plane import free_port

ROOT = Path(__file__).resolve().parents[2]
STARTS, SECONDS = 2, 65.0
"""Two processes of one program differ by a percent or two, so each variant is started twice; long enough for a save."""
WARM = 3
"""Epochs of each variant before the first that is measured."""
PATIENCE = 120.0
SAVE_EVERY = 60.0
"""Seconds between two checkpoints, by default."""


@dataclass(frozen=True, slots=True)
class EpochCost:
    """One epoch, in seconds."""

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Variant:
    """A program that trains an epoch when it is told to."""

    process: subprocess.Popen[bytes]
    told: socket.socket
    port: int | None = None
    """The port of its supervisor, if it has one: /metrics is scraped in each epoch."""

    def run_epoch(self) -> EpochCost:
        cpu, wall = cpu_seconds(self.process.pid), time.perf_counter()
        self.told.send(b".")
        if self.port is not None:
            page(self.port)
        self.told.recv(1)
        return EpochCost(time.perf_counter() - wall, cpu_seconds(self.process.pid) - cpu)

    def close(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def start(folder: Path, flags: list[str], environment: Mapping[str, str], port: int | None = None) -> Variant:
    """Start the program with `flags`, ready for its first epoch; `folder` is for this one alone."""
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
    return Variant(process, told, port)


def supervised(folder: Path) -> Variant:
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
    """Return the processor time of a process and of its living descendants."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    children = [
        training_process
        for task in Path(f"/proc/{pid}/task").iterdir()
        for training_process in (task / "children").read_text().split()
    ]
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(cpu_seconds(int(training_process)) for training_process in children)


def measure() -> dict[str, Any]:
    """Measure the overhead in percent of the program alone, and the seconds of each bring-up phase under `dtj-run`."""
    starts, phases = [], {}
    for _ in range(STARTS):
        rounds, found = one_start()
        starts.append(figures(rounds, found))
        phases = bring_up(found)
    medians = {name: statistics.median(each[name] for each in starts) for name in starts[0]}
    spread = sorted(each["overhead_percent"] for each in starts)
    return {**medians, "overhead_percent_by_start": spread, "bringup_seconds": phases}


def one_start() -> tuple[list[dict[str, EpochCost]], dict[str, float]]:
    """Start all variants once; returns the rounds, and the metrics at their end."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        folders = {variant: Path(name) / variant for variant in ("plain", "alone", "ours")}
        for folder in folders.values():
            folder.mkdir()
        variants = {
            "plain": running.enter_context(closing(start(folders["plain"], [], {}))),
            "alone": running.enter_context(closing(start(folders["alone"], [], KEEP_MEMORY))),
            "ours": running.enter_context(closing(supervised(folders["ours"]))),
        }
        there, back = list(variants.items()), list(reversed(variants.items()))
        for _ in range(WARM):
            for variant in variants.values():
                variant.run_epoch()
        ends = time.monotonic() + SECONDS
        rounds = []
        while time.monotonic() < ends:
            rounds += [{name: variant.run_epoch() for name, variant in order} for order in (there, back)]
        assert variants["ours"].port is not None
        return rounds, metrics(page(variants["ours"].port))


def figures(rounds: list[dict[str, EpochCost]], found: Mapping[str, float]) -> dict[str, float]:
    """Compute the figures.

    Wall time: medians over the rounds, plus each save as if training stood still until it is complete. Processor time:
    sums over all epochs.
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
