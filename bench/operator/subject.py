"""The measured operator: the real command in its own process, and what the kernel reports of it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from bench.operator import meter
from e2e.cluster.control_plane import ControlPlane, free_port

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "operator"
USER_AGENT = "dtj-operator/"
READY_LIMIT = 120.0
STOP_LIMIT = 20.0
LOOK_SECONDS = 1.0
AT_REST = 0.05
"""A share of one core that counts as idle."""
MEGABYTE = 1024 * 1024
PROGRAM = """
import runpy, sys
sys.modules["kubernetes"] = None
runpy.run_module("dtj_operator", run_name="__main__", alter_sys=True)
"""
"""`python -m dtj_operator` as in its image, where the Kubernetes client of the tests is not installed: wherever kopf
finds that, it imports it, which takes 10 MB."""


@dataclass
class OperatorProcess:
    """A running operator process."""

    process: subprocess.Popen[bytes]
    health: int
    """Port of /readyz."""
    log: Path
    spawned_at: float = field(default_factory=time.time)
    """Epoch seconds."""

    def wait_ready(self) -> float:
        """Wait until its caches are synced; returns the seconds since it was spawned."""
        deadline = time.monotonic() + READY_LIMIT
        while not self._ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the operator has not become ready: {self.log.read_text()[-1500:]}")
            time.sleep(0.02)
        return time.time() - self.spawned_at

    async def come_to_rest(self) -> None:
        """Wait until it is nearly idle: kopf goes on processing what it has listed after the caches are synced."""
        before, used = -inf, self.cpu_seconds()
        while used - before > AT_REST * LOOK_SECONDS:
            await asyncio.sleep(LOOK_SECONDS)
            before, used = used, self.cpu_seconds()

    def rss_mb(self) -> float:
        """Return the resident memory, in MB of 2**20 bytes."""
        return self._status("VmRSS")

    def peak_rss_mb(self) -> float:
        """Return the largest resident memory so far."""
        return self._status("VmHWM")

    def cpu_seconds(self) -> float:
        """Return the processor time so far, user and system."""
        return meter.process_seconds(self.process.pid)

    def warnings(self) -> list[str]:
        """Return the lines of its log above level info."""
        return [line for line in self.log.read_text().splitlines() if " info " not in line]

    def stop(self) -> None:
        """Send SIGTERM, and wait."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _status(self, name: str) -> float:
        if self.process.poll() is not None:
            raise RuntimeError(f"the operator has ended: {self.log.read_text()[-3000:]}")
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024 / MEGABYTE
        raise AssertionError(name)


@contextmanager
def operator(
    control_plane: ControlPlane, *flags: str, source: Path = SOURCE, wrapper: tuple[str, ...] = ()
) -> Iterator[OperatorProcess]:
    """Run the operator as administrator of that control plane, progress off; stopped at the end.

    `source`: the source root to run. `wrapper`: a program in front, for instance a profiler.
    """
    port = free_port()
    log = control_plane.directory / f"operator-{port}.log"
    command = [*wrapper, sys.executable, "-c", PROGRAM, "run", f"--kubeconfig={control_plane.kubeconfig}"]
    command += ["--no-progress", "--metrics-bind-address=0", f"--health-probe-bind-address=127.0.0.1:{port}", *flags]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stderr=out, stdout=out, cwd=control_plane.directory)
    subject = OperatorProcess(process, port, log)
    try:
        yield subject
        if process.poll() is not None:
            raise RuntimeError(f"the operator has ended: {log.read_text()[-1500:]}")
    finally:
        subject.stop()
