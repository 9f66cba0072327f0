"""The invariant monitor accepts the commits of two kinds in any order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.faults.invariant_monitor import InvariantMonitor
from tests.support.apiserver.kinds import JOBS, PODS
from tests.support.realserver.mirror import Mirror

if TYPE_CHECKING:
    from tests.faults.fault_cluster import FaultCluster

JOB = {"name": "train", "namespace": "here", "uid": "u1"}
LABELS = {"job-name": "train", "job-uid": "u1", "role": "worker", "index": "0", "attempt": "1"}


class Server(Mirror):
    """A server whose watch events the tests make."""

    def __init__(self) -> None:
        super().__init__()
        self.on_commit = self.listen
        self.list = lambda _: self.items(PODS, "")

    def get(self, _: Any, *key: Any) -> Any:
        return super().get(JOBS, cast("tuple[str, str]", key))

    def job(self, revision: int, attempt: int) -> None:
        job = {"metadata": {**JOB, "resourceVersion": str(revision)}, "status": {"attempt": attempt}}
        self.tell(JOBS, {"type": "MODIFIED" if attempt else "ADDED", "object": job})

    def pod(self, revision: int) -> None:
        labels = {f"dtj.dev/{name}": value for name, value in LABELS.items()}
        metadata = {"name": "train-worker-0", "namespace": "here", "uid": "u2", "labels": labels}
        pod = {"metadata": {**metadata, "resourceVersion": str(revision)}, "status": {}}
        self.tell(PODS, {"type": "ADDED", "object": pod})


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def monitor(server: Server) -> InvariantMonitor:
    monitor = InvariantMonitor(cast("FaultCluster", SimpleNamespace(server=server)))
    server.job(1, attempt=0)
    return monitor


def test_a_pod_whose_attempt_stood_in_status_is_right_though_that_is_told_later(
    server: Server, monitor: InvariantMonitor
):
    server.pod(3)
    server.job(2, attempt=1)
    assert monitor.violations == []


def test_a_pod_whose_attempt_stands_in_status_only_afterwards_is_a_broken_law(
    server: Server, monitor: InvariantMonitor
):
    server.pod(2)
    server.job(3, attempt=1)
    assert monitor.violations == ["train-worker-0 was created at attempt 1 before that stood in status"]
