"""`make bench-trainer`: the loop beside a hand-written one and Keras `fit`, on one device and on two; and what watching
over it costs: reports, summaries, checkpoints, and the supervisor with somebody who asks it for /metrics each second.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.machine import machine
from e2e.cluster.plane import free_port

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "build" / "results" / "bench-trainer.json"
KEPT = ROOT / "bench" / "results"
DEVICES = {"one_device": 1, "mirrored": 2}
CASES = ("tiny", "cnn")


def measure(case: str, devices: int) -> dict[str, float]:
    """The figures of one case under one strategy, and the supervisor's share of a core."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("w+") as log:
        environment = {
            **os.environ,
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "CUDA_VISIBLE_DEVICES": "-1",
            "DTJ_CHECKPOINT": json.dumps({"directory": f"{folder}/state"}),
            "DTJ_TERMINATION_LOG": f"{folder}/termination",
        }
        command = [sys.executable, "-m", "dtj_trainer", "--port", str(port), "--logical-devices", str(devices)]
        process = subprocess.Popen(
            [*command, "-m", "bench.trainer.loop", case], env=environment, stdout=log, stderr=log, cwd=ROOT
        )
        share = watch(process, port)
        log.seek(0)
        said = log.read()
    figures = [line.removeprefix("BENCH ") for line in said.splitlines() if line.startswith("BENCH ")]
    if not figures:
        raise SystemExit(f"{case} on {devices} devices gave no figures:\n{said[-3000:]}")
    return {**json.loads(figures[-1]), "supervisor_percent": share}


def watch(process: subprocess.Popen[bytes], port: int) -> float:
    """Ask for /metrics each second until the end; the supervisor's processor time in percent of the time passed."""
    began, spent = time.monotonic(), 0.0
    while process.poll() is None:
        try:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            spent = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                answer.read()
        except (OSError, IndexError):  # not there yet, or no more
            pass
        time.sleep(1.0)
    return 100 * spent / (time.monotonic() - began)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--keep", action="store_true", help="also write the figures to bench/results")
    keep = options.parse_args().keep
    found: dict[str, Any] = {"date": f"{datetime.now(UTC):%Y-%m-%d}", **machine()}
    for name, devices in DEVICES.items():
        for case in CASES:
            figures = measure(case, devices)
            found |= {f"{name}_{case}_{key}": round(value, 3) for key, value in figures.items()}
            print(f"{name} {case}: " + "  ".join(f"{key} {value:.3g}" for key, value in figures.items()), flush=True)
    for path in (RESULT, *([KEPT / f"trainer-{found['date']}.json"] if keep else [])):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
