"""Workloads: what happens to a job, done through the API alone, so that it can happen under any fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.faults.fault_cluster import JOB

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.faults.fault_cluster import FaultCluster
    from tests.support.apiserver import Object


@dataclass(frozen=True, slots=True)
class Workload:
    """One job and what happens to it."""

    name: str
    job: Object
    drive: Callable[[FaultCluster], Awaitable[None]]
    """Returns when the end state is reached for the first time."""


def training_job(*, strategy: str = "MultiWorkerMirrored", max_restarts: int = 3, **replicas: int) -> Object:
    """Return a job with these numbers of replicas, an image without supervisor, and short waits."""
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "trainer:1"}]}}
    return {
        "metadata": {"name": JOB},
        "spec": {
            "strategy": {"type": strategy},
            "replicaSpecs": {role: {"replicas": count, "template": template} for role, count in replicas.items()},
            "failurePolicy": {
                "maxRestarts": max_restarts,
                "backoff": {"initialSeconds": 1, "maxSeconds": 4, "resetAfterSeconds": 600},
            },
        },
    }


async def _running(cluster: FaultCluster) -> None:
    await cluster.until(lambda: cluster.holds("Running"), "a running job")


async def _recovered(cluster: FaultCluster, *, attempt: int) -> None:
    def reached() -> bool:
        incident = cluster.status.get("lastIncident") or {}
        return (
            cluster.holds("Running")
            and cluster.status.get("attempt", 0) >= attempt
            and bool(incident.get("recoveredAt"))
        )

    await cluster.until(reached, f"a recovered job at attempt {attempt}")


async def _worker_fails(cluster: FaultCluster) -> None:
    await _running(cluster)
    await cluster.until(lambda: cluster.kubelet.exit("train-worker-1", 1, message="boom"), "worker 1 to fail")
    await _recovered(cluster, attempt=_attempts(cluster) + 1)


async def _worker_fails_too_often(cluster: FaultCluster) -> None:
    await _running(cluster)
    await cluster.until(lambda: cluster.kubelet.exit("train-worker-1", 1, message="boom"), "worker 1 to fail")
    await _recovered(cluster, attempt=_attempts(cluster) + 1)
    await cluster.until(lambda: cluster.kubelet.exit("train-worker-0", 1, message="boom"), "worker 0 to fail")
    await cluster.until(lambda: cluster.holds("Failed"), "a failed job")


async def _pod_deleted(cluster: FaultCluster) -> None:
    await _running(cluster)
    attempt = _attempts(cluster) + 1
    # The kubelet waits with its confirmation until an operator has seen the deletion; see test_unobserved.
    cluster.kubelet.halted = True
    cluster.delete_pod("train-worker-1")
    await cluster.until(lambda: cluster.status.get("lastIncident") is not None, "an incident")
    cluster.kubelet.resume()
    await _recovered(cluster, attempt=attempt)


async def _suspend_and_resume(cluster: FaultCluster) -> None:
    await _running(cluster)
    cluster.change({"spec": {"suspend": True}})
    await cluster.until(lambda: cluster.holds("Suspended") and not cluster.pods(), "a suspended job without pods")
    cluster.change({"spec": {"suspend": False}})
    await _running(cluster)


async def _scale(cluster: FaultCluster) -> None:
    await _running(cluster)
    cluster.change({"spec": {"replicaSpecs": {"worker": {"replicas": 3}}}})
    await cluster.until(lambda: cluster.holds("Running") and len(cluster.pods()) == 3, "a running job of three workers")


async def _recreate(cluster: FaultCluster) -> None:
    await _running(cluster)
    cluster.delete_job()
    cluster.apply(RECREATED.job)
    await _running(cluster)


async def _lose_ps(cluster: FaultCluster) -> None:
    await _running(cluster)
    await cluster.until(lambda: cluster.kubelet.exit("train-ps-0", 137), "the ps to die")
    await _recovered(cluster, attempt=_attempts(cluster) + 1)


async def _complete(cluster: FaultCluster) -> None:
    await _running(cluster)
    await cluster.until(lambda: cluster.kubelet.exit("train-worker-1", 0), "worker 1 to end")
    await cluster.until(lambda: cluster.status.get("completed") == {"worker": [1]}, "worker 1 to be noted as completed")
    await cluster.until(lambda: cluster.kubelet.exit("train-worker-0", 0), "worker 0 to end")
    await cluster.until(lambda: cluster.holds("Succeeded"), "a succeeded job")


def _attempts(cluster: FaultCluster) -> int:
    return int(cluster.status.get("attempt", 0))


CREATED_ROLES: Final = Workload(
    "created, four roles",
    training_job(strategy="ParameterServer", chief=1, worker=1, ps=1, evaluator=1),
    _running,
)
CREATED_WORKERS: Final = Workload("created, four workers", training_job(worker=4), _running)
WORKER_FAILS: Final = Workload("a worker fails", training_job(worker=2), _worker_fails)
FAILS_TOO_OFTEN: Final = Workload(
    "workers fail too often", training_job(worker=2, max_restarts=1), _worker_fails_too_often
)
POD_DELETED: Final = Workload("a pod deleted by a user", training_job(worker=2), _pod_deleted)
SUSPENDED: Final = Workload("suspended and resumed", training_job(worker=2), _suspend_and_resume)
SCALED: Final = Workload("scaled", training_job(worker=2), _scale)
RECREATED: Final = Workload("deleted and created again", training_job(worker=2), _recreate)
PS_LOST: Final = Workload(
    "a parameter server lost", training_job(strategy="ParameterServer", chief=1, worker=1, ps=1), _lose_ps
)
COMPLETED: Final = Workload("completed", training_job(worker=2), _complete)

WORKLOADS: Final = (
    CREATED_ROLES,
    CREATED_WORKERS,
    WORKER_FAILS,
    FAILS_TOO_OFTEN,
    POD_DELETED,
    SUSPENDED,
    SCALED,
    RECREATED,
    PS_LOST,
    COMPLETED,
)
