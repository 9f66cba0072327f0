"""`make bench-trainer`: measure the training loop, the overhead of `dtj-run`, killed trainings and Parquet.

The loop is compared with a handwritten one and Keras `fit`, killed trainings with undisturbed ones, Parquet with
pyarrow.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.figures import rounded
from bench.machine import machine
from bench.trainer import kills, overhead
from dtj_trainer.preload.spawn import KEEP_MEMORY
from e2e.cluster.control_plane import free_port

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "build" / "results" / "bench-trainer.json"
KEPT = ROOT / "bench" / "results"
CASES = ("tiny", "cnn")


def loops(prefix: str, devices: int) -> dict[str, Any]:
    """Measure each case under one strategy; keys begin with `prefix`."""
    return {f"{prefix}{case}_{key}": value for case in CASES for key, value in loop(case, devices).items()}


def loop(case: str, devices: int) -> dict[str, Any]:
    """Measure one case on so many logical CPUs."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "CUDA_VISIBLE_DEVICES": "-1",
            "DTJ_CHECKPOINT": json.dumps({"directory": f"{folder}/state"}),
            "DTJ_TERMINATION_LOG": f"{folder}/termination",
        }
        command = ["dtj_trainer", "--port", str(free_port()), "--logical-devices", str(devices), "-m"]
        lines = said([*command, "bench.trainer.loop", case], environment).splitlines()
    figures = [line.removeprefix("BENCH ") for line in lines if line.startswith("BENCH ")]
    return dict(json.loads(figures[-1]))


def parquet() -> dict[str, Any]:
    """Measure Parquet with the memory settings of `dtj-run`, as in training; pyarrow's allocator is not glibc's."""
    return dict(json.loads(said(["bench.trainer.parquet"], {**KEEP_MEMORY, **os.environ})))


def said(module: list[str], environment: Mapping[str, str]) -> str:
    """Run a module and return what it prints."""
    command = [sys.executable, "-m", *module]
    return subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


STAGES: Mapping[str, Callable[[], dict[str, Any]]] = {
    "one_device": lambda: loops("", 1),
    "mirrored": lambda: loops("mirrored_", 2),
    "overhead": overhead.measure,
    "resume": lambda: kills.measure(names=["one_device"]),
    "parquet": parquet,
}


def measured(stage: str) -> dict[str, Any]:
    """Run a stage; returns its figures, rounded, with date and machine."""
    place = {"date": f"{datetime.now(UTC):%Y-%m-%d %H:%M}", **machine()}
    return {**rounded(STAGES[stage](), 4), f"{stage}_stage": place}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    options.add_argument("--add", action="store_true", help="to the figures of the last run")
    options.add_argument("--keep", action="store_true", help="also write the figures to bench/results")
    given = options.parse_args()
    found: dict[str, Any] = json.loads(RESULT.read_text()) if given.add and RESULT.exists() else {}
    for name in given.stages:
        figures = measured(name)
        print(json.dumps(figures, indent=2), flush=True)
        found |= figures
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(json.dumps(found, indent=2) + "\n")
    if given.keep:
        (KEPT / f"trainer-{datetime.now(UTC):%Y-%m-%d}.json").write_text(RESULT.read_text())


if __name__ == "__main__":
    main()
