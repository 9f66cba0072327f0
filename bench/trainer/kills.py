"""Jobs killed repeatedly at random steps: do they end with the model of an undisturbed one?

On one device every bit has to be equal; on several, weights may differ by rounding. `kill -9` hits the training
process of a `dtj-run`, which restarts it in place, as in a pod.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from bench.machine import machine
from bench.trainer.processes import ROOT, Worker, workers

PROGRAM = ROOT / "bench" / "trainer" / "killed.py"
KEPT = ROOT / "bench" / "results"
KILLS = 20
STEPS_A_KILL = 100
"""The job is long enough for all kills."""
EVERY_STEPS = 20
FURTHEST = 50
"""A process is killed at most so many steps after all workers train again."""
PATIENCE = 200.0
NOISE = {"rtol": 1e-4, "atol": 1e-5}
"""Sums over replicas are computed in any order."""


@dataclass(frozen=True)
class Job:
    """A number of processes, and of devices in each."""

    processes: int
    devices: int

    @property
    def exact(self) -> bool:
        return self.processes == self.devices == 1


JOBS = {"one_device": Job(1, 1), "mirrored": Job(1, 2), "multi_worker_mirrored": Job(2, 1)}


def measure(kills: int = KILLS, names: Iterable[str] = JOBS) -> dict[str, Any]:
    """Measure all jobs: `resume_kills` in total, `resume_mismatches` the jobs that did not end with the same model."""
    found: dict[str, Any] = {"resume_kills": 0, "resume_mismatches": 0}
    for name in names:
        figures = compare(JOBS[name], kills)
        found["resume_kills"] += figures["kills"]
        found["resume_mismatches"] += not figures["same"]
        found |= {f"{name}_resume_{key}": value for key, value in figures.items()}
        print(f"{name}: {json.dumps(figures)}", file=sys.stderr, flush=True)
    return found


def compare(job: Job, kills: int) -> dict[str, Any]:
    """Run a job twice, undisturbed and killed, and compare the models."""
    steps = STEPS_A_KILL * kills
    undisturbed, _ = run_job(job, steps, None)
    killed, at = run_job(job, steps, Killer(random.Random(), kills))  # noqa: S311 - random choices, no secrets
    apart = np.abs(np.subtract(killed["weights"], undisturbed["weights"])).max()
    near = np.allclose(killed["weights"], undisturbed["weights"], **NOISE)
    bits = killed["digest"] == undisturbed["digest"]
    same = killed["step"] == undisturbed["step"] and (bits if job.exact else near)
    return {"kills": len(at), "same": bool(same), "same_bits": bits, "largest_difference": float(apart), "steps": at}


def run_job(job: Job, steps: int, killer: "Killer | None") -> tuple[dict[str, Any], list[int]]:
    """Run a job; returns what its first process prints at the end, and the steps at which one was killed."""
    with tempfile.TemporaryDirectory(prefix="dtj-kills-") as name:
        folder, slow = Path(name), Path(name) / "slow"
        program = (str(PROGRAM), str(steps), str(slow))
        command = ("--threads", "1", "--logical-devices", str(job.devices), *program)
        if killer is not None:
            slow.touch()
        with workers(job.processes, folder, command, everySteps=EVERY_STEPS) as started:
            at = killer.kill(started) if killer is not None else []
            slow.unlink(missing_ok=True)
            codes = [worker.process.wait() for worker in started]
        logs = [worker.log.read_text(errors="replace") for worker in started]
        told = [line.removeprefix("BENCH ") for line in logs[0].splitlines() if line.startswith("BENCH ")]
        if any(codes) or not told:
            raise SystemExit(f"the job ended with {codes}:\n{logs[0][-3000:]}")
        return json.loads(told[-1]), at


@dataclass(frozen=True)
class Killer:
    """A source of kills at random steps."""

    rng: random.Random
    kills: int

    def kill(self, job: list[Worker]) -> list[int]:
        """Kill one process after the other; returns the steps at which."""
        return [self._once(job) for _ in range(self.kills)]

    def _once(self, job: list[Worker]) -> int:
        wait_until(lambda: all(worker.get("/readyz") for worker in job), "a step of all")
        victim = self.rng.choice(job)
        begun = [worker.restarts() for worker in job]
        goal = victim.step() + self.rng.randint(1, FURTHEST)
        step = wait_until(lambda: (now := victim.step()) >= goal and now, f"step {goal}")
        os.kill(victim.training_process(), signal.SIGKILL)
        wait_until(
            lambda: all(w.restarts() > before for w, before in zip(job, begun, strict=True)), "a new start of all"
        )
        return int(step)


def wait_until(found: Callable[[], Any], what: str) -> Any:
    """Wait until `found` returns something true, and return that."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := found()):
        if time.monotonic() > deadline:
            raise SystemExit(f"{what} did not come within {PATIENCE:.0f} s")
        time.sleep(0.01)
    return answer


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kills", type=int, default=KILLS, help="of each job")
    arguments.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    arguments.add_argument("--keep", action="store_true", help="also write the figures to bench/results")
    options = arguments.parse_args()
    found = {"date": f"{datetime.now(UTC):%Y-%m-%d}", **machine(), **measure(options.kills, options.jobs)}
    text = json.dumps(found, indent=2) + "\n"
    sys.stdout.write(text)
    if options.keep:
        (KEPT / f"trainer-kills-{found['date']}.json").write_text(text)


if __name__ == "__main__":
    main()
