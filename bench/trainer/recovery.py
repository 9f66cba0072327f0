"""`kill -9` of a training process → all train again, with two `dtj-run` on this machine's loopback.

The same program and clock as in the end-to-end scenario, without Kubernetes: what is left is the trainer's own share.
Processes are killed alternating, leader and not; a figure is the time until the later of the two has made a step. Flags
of `dtj-run` may follow: `--standby off` measures the recovery in new processes.
"""

import argparse
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.trainer.processes import ROOT, Worker, workers
from e2e.job_monitor import Sample
from e2e.recovery import recovery

PROGRAM = (str(ROOT / "examples" / "digits.py"), "--epochs=1000000")
EVERY_STEPS = 50
PATIENCE = 120.0
SETTLED_STEPS = 30
"""Steps that both make between two kills."""
POLL_SECONDS = 0.005


def poll(job: list[Worker], samples: list[Sample], seconds: float) -> None:
    """Poll all workers for so many seconds."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        samples += [sample for worker in job if (sample := worker.sample())]
        time.sleep(POLL_SECONDS)


def wait_until_stable(job: list[Worker]) -> None:
    """Wait until all workers have trained for a while."""
    deadline = time.monotonic() + PATIENCE
    first: dict[str, int] = {}
    while time.monotonic() < deadline:
        now = {s.pod: s.step or 0 for worker in job if (s := worker.sample()) and s.step}
        for name, step in now.items():
            first.setdefault(name, step)
        if len(now) == len(job) and all(step >= first[name] + SETTLED_STEPS for name, step in now.items()):
            return
        time.sleep(0.1)
    raise SystemExit("the workers do not train")


def kill_and_time(job: list[Worker], victim: Worker) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Kill a worker's training process and wait; returns the seconds by worker, and the phases of their bring-up."""
    samples: list[Sample] = []
    poll(job, samples, 0.05)
    at = time.monotonic()
    os.kill(victim.training_process(), signal.SIGKILL)
    deadline = at + PATIENCE
    while (found := recovery(samples, at, [worker.name for worker in job])) is None:
        if time.monotonic() > deadline:
            raise SystemExit("no recovery")
        poll(job, samples, 0.02)
    return found.seconds, {worker.name: worker.bring_up() for worker in job}


def main() -> None:
    """Print each recovery and the summary, as JSON."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--kills", type=int, default=10)
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument("--pause", type=float, default=3.0, help="most seconds of training between two kills")
    arguments.add_argument("--seed", type=int, default=0)
    options, flags = arguments.parse_known_args()
    moment = random.Random(options.seed)  # noqa: S311 - random choices, no secrets
    seconds = []
    with (
        tempfile.TemporaryDirectory(prefix="dtj-recovery-") as name,
        workers(options.workers, Path(name), [*flags, *PROGRAM], everySteps=EVERY_STEPS) as job,
    ):
        for number in range(options.kills):
            wait_until_stable(job)
            time.sleep(moment.uniform(0.3, 1.0) * options.pause)
            each, phases = kill_and_time(job, job[number % len(job)])
            seconds.append(max(each.values()))
            told = {k: round(v, 3) for k, v in each.items()}
            print(json.dumps({"killed": number % len(job), "seconds": told, "phases": phases}), file=sys.stderr)
    summary = {
        "kills": len(seconds),
        "median_seconds": round(statistics.median(seconds), 3),
        "worst_seconds": round(max(seconds), 3),
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
