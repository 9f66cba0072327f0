"""What is told of a server's commits is not what order they were told in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.faults.invariants import Watchman
from tests.support.apiserver.kinds import JOBS, PODS
from tests.support.realserver.mirror import Mirror

if TYPE_CHECKING:
    from tests.faults.fault_cluster import World

JOB = {"name": "train", "namespace": "here", "uid": "u1"}
LABELS = {"job-name": "train", "job-uid": "u1", "role": "worker", "index": "0", "attempt": "1"}


class Server(Mirror):
    """Tells what it is made to tell."""

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
def watchman(server: Server) -> Watchman:
    watchman = Watchman(cast("World", SimpleNamespace(server=server)))
    server.job(1, attempt=0)
    return watchman


def test_a_pod_whose_attempt_stood_in_status_is_right_though_that_is_told_later(server: Server, watchman: Watchman):
    server.pod(3)
    server.job(2, attempt=1)
    assert watchman.complaints == []


def test_a_pod_whose_attempt_stands_in_status_only_afterwards_is_a_broken_law(server: Server, watchman: Watchman):
    server.pod(2)
    server.job(3, attempt=1)
    assert watchman.complaints == ["train-worker-0 was created at attempt 1 before that stood in status"]
