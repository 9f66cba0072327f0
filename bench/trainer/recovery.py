"""`kill -9` of a training process → all train again, with two `dtj-run` on this machine's loopback.

The same program and clock as in the end-to-end scenario, without Kubernetes: what is left is the trainer's own share.
Processes are killed in turn, leader and not; a figure is the time until the later of the two has made a step. Flags of
`dtj-run` may follow: `--standby off` measures the way back of new processes.
"""

import argparse
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from e2e.recovery import recovery
from e2e.watching import Sample

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "examples" / "digits.py"
EVERY_STEPS = 50
PATIENCE = 120.0
SETTLED_STEPS = 30
"""Steps that both have made since the last kill before the next one comes."""
POLL_SECONDS = 0.005


class Worker:
    """One `dtj-run` and what it says of itself."""

    def __init__(self, name: str, port: int, process: subprocess.Popen[bytes]) -> None:
        self.name = name
        self.process = process
        self._port = port

    def get(self, path: str) -> str:
        """The page; empty when nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=2) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def sample(self) -> Sample | None:
        """What /status says now."""
        if not (page := self.get("/status")):
            return None
        said: dict[str, Any] = json.loads(page)
        return Sample(
            at=time.monotonic(),
            pod=self.name,
            uid=self.name,
            phase=said["phase"],
            step=said["step"],
            total_steps=said["totalSteps"],
            loss=said["loss"],
            steps_per_second=said["stepsPerSecond"],
            restarts=said["restarts"],
            updated=said["updatedAt"] or "",
            checkpoint_step=said["lastCheckpointStep"],
        )

    def child(self) -> int:
        """The process that trains."""
        zygote = children(self.process.pid)[0]
        return children(zygote)[0]

    def bring_up(self) -> dict[str, float]:
        """Seconds by phase of the last start."""
        lines = [line for line in self.get("/metrics").splitlines() if line.startswith("dtj_bringup_seconds{")]
        return {line.split('"')[1]: float(line.split()[-1]) for line in lines}


def children(pid: int) -> list[int]:
    """Pids of a process's children, the oldest first."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now."""
    held = [socket.socket() for _ in range(count)]
    for each in held:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


@contextmanager
def workers(count: int, folder: Path, flags: list[str]) -> Iterator[list[Worker]]:
    """A job that trains for longer than anybody measures."""
    ports = free_ports(2 * count)
    addresses = [f"127.0.0.1:{port}" for port in ports[:count]]
    http = dict(zip(addresses, ports[count:], strict=True))
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DTJ_", "TF_"))}
    started: list[Worker] = []
    try:
        for index, address in enumerate(addresses):
            task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            environment = {
                **clean,
                "PYTHONPATH": str(ROOT / "trainer-image"),
                "TF_CPP_MIN_LOG_LEVEL": "2",
                "TF_CONFIG": json.dumps(task),
                "DTJ_UID": "uid-1",
                "DTJ_ROLE": "worker",
                "DTJ_INDEX": str(index),
                "DTJ_STRATEGY": '{"type": "MultiWorkerMirrored"}',
                "DTJ_PEER_PORTS": json.dumps(http),
                "DTJ_CHECKPOINT": json.dumps({"directory": str(folder / "checkpoints"), "everySteps": EVERY_STEPS}),
                "DTJ_TERMINATION_LOG": str(folder / f"termination-{index}"),
                "DTJ_RESTARTS": "1000",
            }
            with (folder / f"log-{index}").open("wb") as log:
                command = [sys.executable, "-m", "dtj_trainer", "--port", str(http[address]), *flags]
                process = subprocess.Popen(
                    [*command, str(PROGRAM), "--epochs=1000000"],
                    env=environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            started.append(Worker(f"worker-{index}", http[address], process))
        yield started
    finally:
        for worker in started:
            worker.process.kill()
            worker.process.wait()


def watch(job: list[Worker], samples: list[Sample], seconds: float) -> None:
    """Ask everybody for so long."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        samples += [sample for worker in job if (sample := worker.sample())]
        time.sleep(POLL_SECONDS)


def settle(job: list[Worker]) -> None:
    """Until everybody has trained for a while."""
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


def one(job: list[Worker], victim: Worker) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Kill and wait: seconds by worker, and the phases of their bring-up."""
    samples: list[Sample] = []
    watch(job, samples, 0.05)
    at = time.monotonic()
    os.kill(victim.child(), signal.SIGKILL)
    deadline = at + PATIENCE
    while (found := recovery(samples, at, [worker.name for worker in job])) is None:
        if time.monotonic() > deadline:
            raise SystemExit("no recovery")
        watch(job, samples, 0.02)
    return found.seconds, {worker.name: worker.bring_up() for worker in job}


def main() -> None:
    """Print each recovery and the summary, as JSON."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--kills", type=int, default=10)
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument("--pause", type=float, default=3.0, help="most seconds of training between two kills")
    arguments.add_argument("--seed", type=int, default=0)
    options, flags = arguments.parse_known_args()
    moment = random.Random(options.seed)  # noqa: S311 - dice, no secrets
    seconds = []
    with (
        tempfile.TemporaryDirectory(prefix="dtj-recovery-") as name,
        workers(options.workers, Path(name), flags) as job,
    ):
        for number in range(options.kills):
            settle(job)
            time.sleep(moment.uniform(0.3, 1.0) * options.pause)
            each, phases = one(job, job[number % len(job)])
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
