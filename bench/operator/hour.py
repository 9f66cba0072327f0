"""An hour of the operator's work, simulated in minutes: does its memory stay flat?

API server and kubelets of the tests run in this process, the operator in its own; for both of them time runs
`SPEED` times as fast, so that within a few minutes it lists everything a dozen times, reconnects its watches,
replaces hundreds of pods, and sees jobs end, disappear and start.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from bench.operator import load
from dtj_operator.api.trainer_contract import EXIT_KILLED
from dtj_operator.app import kopf_app
from dtj_operator.app.interpreter import GC_THRESHOLD
from dtj_operator.app.manager import Manager
from dtj_operator.app.settings import Settings
from dtj_operator.kube.rest_config import RestConfig, Token
from tests.support.apiserver import ApiServer
from tests.support.fasttime import FastLoop
from tests.support.kubelet import Kubelet

SPEED = 15.0
MINUTES = 60
EVERY = 5
"""Minutes between two readings of the memory."""
MINUTE = 60 / SPEED
"""Real seconds."""
QUIET = Settings(leader_elect=False, metrics=None, health=None, progress=False)
JOBS = "distributedtrainingjobs"
NAMESPACE = "default"


class AcceleratedClock:
    """A clock that runs `SPEED` times as fast, the same in both processes."""

    def __init__(self, began: float) -> None:
        """`began`: monotonic seconds of the machine."""
        self._began = began
        self._wall = datetime.now(UTC) - timedelta(seconds=(time.monotonic() - began))

    def now(self) -> datetime:
        """Return the accelerated time, aware, in UTC."""
        return self._wall + timedelta(seconds=(time.monotonic() - self._began) * SPEED)


async def memory(jobs: int) -> list[float]:
    """Return the resident megabytes of an operator with so many jobs, for every five minutes of an hour."""
    began = time.monotonic()
    rng = random.Random(0)  # noqa: S311
    async with (
        ApiServer(now=AcceleratedClock(began).now, bookmark_seconds=MINUTE / 2) as server,
        Kubelet(server) as kubelet,
    ):
        alive = load.names(jobs)
        for name in alive:
            _create(server, name)
        command = [sys.executable, "-m", "bench.operator.hour", server.url, str(began)]
        process = subprocess.Popen(command)  # noqa: ASYNC220  (before the clock starts)
        try:
            found = []
            for minute in range(1, MINUTES + 1):
                await asyncio.sleep(MINUTE)
                for name in rng.sample(alive, max(1, jobs // 20)):
                    kubelet.exit(f"{name}-worker-{rng.randrange(load.WORKERS)}", EXIT_KILLED)
                alive = _replace_some_jobs(server, kubelet, alive, f"late-{minute:02}")
                if process.poll() is not None:
                    raise RuntimeError("the operator has ended")
                if minute % EVERY == 0:
                    found.append(_resident(process.pid))
            _check_work_was_done(server, alive)
            return found
        finally:
            process.kill()
            process.wait()


def _create(server: ApiServer, name: str) -> None:
    body = load.job(name)
    body["spec"]["ttlSecondsAfterFinished"] = 60
    server.create(JOBS, body, NAMESPACE)


def growth(found: list[float]) -> float:
    """Return by how many megabytes the median of the second half exceeds that of the first; skips the first reading."""
    settled = found[1:]
    middle = len(settled) // 2
    return median(settled[middle:]) - median(settled[:middle])


def _replace_some_jobs(server: ApiServer, kubelet: Kubelet, alive: list[str], newcomer: str) -> list[str]:
    """Delete the oldest job, let another succeed, create two; returns the names of those that run."""
    gone, done, *others = alive
    server.delete(JOBS, NAMESPACE, gone)
    for index in range(load.WORKERS):
        kubelet.exit(f"{done}-worker-{index}", 0)
    names = [f"{newcomer}-{letter}" for letter in "ab"]
    for name in names:
        _create(server, name)
    return [*others, *names]


def _check_work_was_done(server: ApiServer, alive: list[str]) -> None:
    """Fail where the operator did nothing, and so needed no memory."""
    running = [name for name in alive if ((server.get(JOBS, NAMESPACE, name) or {}).get("status") or {}).get("attempt")]
    if not running:
        raise RuntimeError("no job has been restarted within the hour: the operator did nothing")


def _resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return round(next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) / 1024, 1)


async def run_operator(url: str, clock: AcceleratedClock) -> None:
    """Run the operator until it is killed."""
    connection = RestConfig(server=url, token=Token("operator"))
    await kopf_app.run(Manager(QUIET, connection, lost=lambda: None, now=clock.now))


def main(url: str, began: str) -> None:
    """Run the operator's process."""
    gc.set_threshold(*GC_THRESHOLD)
    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=lambda: FastLoop(SPEED)) as runner:
        runner.run(run_operator(url, AcceleratedClock(float(began))))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print(json.dumps(asyncio.run(memory(int(sys.argv[1])))))
    else:
        main(sys.argv[1], sys.argv[2])
