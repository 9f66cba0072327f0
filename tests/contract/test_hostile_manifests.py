"""Manifests that are made to hurt: the operator stays ready and small, and other jobs are not delayed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.contract.operator_under_test import Jobs, operator
from tests.support.hostile_manifests import HOSTILE, Spec

if TYPE_CHECKING:
    import subprocess

    from e2e.cluster.control_plane import ControlPlane

pytestmark = [pytest.mark.contract, pytest.mark.timeout(600)]

DELAY_SECONDS = 20.0
"""One second on a machine that does nothing else; `make bench-operator` measures that."""
MEMORY_MB = 256


@pytest.fixture(scope="module")
def running_operator(strict_control_plane: ControlPlane, account: Path) -> Iterator[subprocess.Popen[bytes]]:
    Jobs(strict_control_plane, "neighbour")
    hostile = [Jobs(strict_control_plane, f"hostile-{number}") for number in range(len(HOSTILE))]
    with operator(account, "--no-progress") as process:
        yield process
        # Operators that other tests start on this API server, of the previous version too, would meet them.
        for jobs in hostile:
            jobs.delete_all()
        hostile[0].until(lambda: not any(jobs.names() for jobs in hostile), "the end of the hostile jobs")


def memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


@pytest.mark.parametrize("number", range(len(HOSTILE)), ids=list(HOSTILE))
def test_a_hostile_manifest_delays_no_other_job_and_takes_no_memory(
    strict_control_plane: ControlPlane, running_operator: subprocess.Popen[bytes], number: int
):
    spec: Spec = list(HOSTILE.values())[number]
    hostile, neighbours = Jobs(strict_control_plane, f"hostile-{number}"), Jobs(strict_control_plane, "neighbour")
    for copy in range(3):
        hostile.create_spec(f"hostile-{copy}", spec)
    name = f"neighbour-{number}"
    began = time.monotonic()
    neighbours.create(name, worker=1, scheduler="nobody")
    neighbours.until(lambda: f"{name}-worker-0" in neighbours.pods(), "a neighbour's pod")
    assert time.monotonic() - began < DELAY_SECONDS
    hostile.until(lambda: all(hostile.status(f"hostile-{copy}") for copy in range(3)), "a status of each")
    assert running_operator.poll() is None
    assert memory_mb(running_operator.pid) < MEMORY_MB
    # It is told, or it runs.
    for copy in range(3):
        assert hostile.status(f"hostile-{copy}")["message"]
