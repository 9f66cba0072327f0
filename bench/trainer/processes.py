"""Jobs as `dtj-run` processes on this machine's loopback."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from e2e.job_monitor import Sample

ROOT = Path(__file__).resolve().parents[2]


class Worker:
    """One running `dtj-run` and its HTTP endpoints."""

    def __init__(self, name: str, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.process = process
        self.log = log
        self._port = port

    def get(self, path: str) -> str:
        """Return the page; empty when nothing answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=2) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def sample(self) -> Sample | None:
        """Return what /status says now."""
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

    def step(self) -> int:
        """Return the last step it has made or resumed from; 0 before."""
        sample = self.sample()
        return (sample and sample.step) or 0

    def restarts(self) -> int:
        """Return how often its program was restarted."""
        sample = self.sample()
        return sample.restarts if sample else 0

    def training_process(self) -> int:
        """Return the pid of the process that trains."""
        zygote = child_pids(self.process.pid)[0]
        return child_pids(zygote)[0]

    def bring_up(self) -> dict[str, float]:
        """Return the seconds of each phase of the last start."""
        return bring_up(metrics(self.get("/metrics")))


def metrics(page: str) -> dict[str, float]:
    """Parse a /metrics page into values by name and labels."""
    lines = [line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def bring_up(found: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of each phase of a process's last start."""
    return {name.split('"')[1]: value for name, value in found.items() if name.startswith("dtj_bringup_seconds{")}


def child_pids(pid: int) -> list[int]:
    """Return the pids of a process's children, the oldest first."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def free_ports(count: int) -> list[int]:
    """Return ports that nothing uses now."""
    held = [socket.socket() for _ in range(count)]
    for each in held:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


@contextmanager
def workers(count: int, folder: Path, command: Sequence[str], **checkpoint: Any) -> Iterator[list[Worker]]:
    """Run the workers of one job: `command` has flags of `dtj-run` and the program; `checkpoint` as in the manifest."""
    ports = free_ports(2 * count)
    addresses = [f"127.0.0.1:{port}" for port in ports[:count]]
    http = dict(zip(addresses, ports[count:], strict=True))
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DTJ_", "TF_"))}
    started: list[Worker] = []
    try:
        for index, address in enumerate(addresses):
            environment = {
                **clean,
                "PYTHONPATH": os.pathsep.join(str(ROOT / root) for root in ("client", "trainer-image")),
                "TF_CPP_MIN_LOG_LEVEL": "2",
                "CUDA_VISIBLE_DEVICES": "-1",
                "DTJ_UID": "uid-1",
                "DTJ_ROLE": "worker",
                "DTJ_INDEX": str(index),
                "DTJ_CHECKPOINT": json.dumps({"directory": str(folder / "checkpoints"), **checkpoint}),
                "DTJ_TERMINATION_LOG": str(folder / f"termination-{index}"),
                "DTJ_RESTARTS": "1000",
            }
            if count > 1:
                task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
                environment |= {"TF_CONFIG": json.dumps(task), "DTJ_PEER_PORTS": json.dumps(http)}
            log = folder / f"log-{index}"
            with log.open("wb") as written:
                process = subprocess.Popen(
                    [sys.executable, "-m", "dtj_trainer", "--port", str(http[address]), *command],
                    env=environment,
                    stdout=written,
                    stderr=subprocess.STDOUT,
                )
            started.append(Worker(f"worker-{index}", http[address], process, log))
        yield started
    finally:
        for worker in started:
            worker.process.kill()
            worker.process.wait()
