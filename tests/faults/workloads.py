"""What happens to a job in each story, told through the API alone, so that it can be told under any fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.faults.fault_cluster import JOB

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.faults.fault_cluster import World
    from tests.support.apiserver import Object


@dataclass(frozen=True, slots=True)
class Workload:
    """One story."""

    name: str
    job: Object
    drive: Callable[[World], Awaitable[None]]
    """Ends when the story has come to its end state for the first time."""


def training_job(*, strategy: str = "MultiWorkerMirrored", max_restarts: int = 3, **replicas: int) -> Object:
    """A job with these numbers of replicas, an image without supervisor, and short waits."""
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


async def _running(world: World) -> None:
    await world.until(lambda: world.holds("Running"), "a running job")


async def _recovered(world: World, *, attempt: int) -> None:
    def reached() -> bool:
        incident = world.status.get("lastIncident") or {}
        return (
            world.holds("Running") and world.status.get("attempt", 0) >= attempt and bool(incident.get("recoveredAt"))
        )

    await world.until(reached, f"a recovered job at attempt {attempt}")


async def _worker_fails(world: World) -> None:
    await _running(world)
    await world.until(lambda: world.kubelet.exit("train-worker-1", 1, message="boom"), "worker 1 to fail")
    await _recovered(world, attempt=_attempts(world) + 1)


async def _worker_fails_too_often(world: World) -> None:
    await _running(world)
    await world.until(lambda: world.kubelet.exit("train-worker-1", 1, message="boom"), "worker 1 to fail")
    await _recovered(world, attempt=_attempts(world) + 1)
    await world.until(lambda: world.kubelet.exit("train-worker-0", 1, message="boom"), "worker 0 to fail")
    await world.until(lambda: world.holds("Failed"), "a failed job")


async def _pod_deleted(world: World) -> None:
    await _running(world)
    attempt = _attempts(world) + 1
    # The kubelet waits with its confirmation until an operator has seen the deletion; see test_unobserved.
    world.kubelet.halted = True
    world.delete_pod("train-worker-1")
    await world.until(lambda: world.status.get("lastIncident") is not None, "an incident")
    world.kubelet.resume()
    await _recovered(world, attempt=attempt)


async def _suspend_and_resume(world: World) -> None:
    await _running(world)
    world.change({"spec": {"suspend": True}})
    await world.until(lambda: world.holds("Suspended") and not world.pods(), "a suspended job without pods")
    world.change({"spec": {"suspend": False}})
    await _running(world)


async def _scale(world: World) -> None:
    await _running(world)
    world.change({"spec": {"replicaSpecs": {"worker": {"replicas": 3}}}})
    await world.until(lambda: world.holds("Running") and len(world.pods()) == 3, "a running job of three workers")


async def _recreate(world: World) -> None:
    await _running(world)
    world.delete_job()
    world.apply(RECREATED.job)
    await _running(world)


async def _lose_ps(world: World) -> None:
    await _running(world)
    await world.until(lambda: world.kubelet.exit("train-ps-0", 137), "the ps to die")
    await _recovered(world, attempt=_attempts(world) + 1)


async def _complete(world: World) -> None:
    await _running(world)
    await world.until(lambda: world.kubelet.exit("train-worker-1", 0), "worker 1 to end")
    await world.until(lambda: world.status.get("completed") == {"worker": [1]}, "worker 1 to be noted as completed")
    await world.until(lambda: world.kubelet.exit("train-worker-0", 0), "worker 0 to end")
    await world.until(lambda: world.holds("Succeeded"), "a succeeded job")


def _attempts(world: World) -> int:
    return int(world.status.get("attempt", 0))


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
POD_DELETED: Final = Workload("a pod deleted by hand", training_job(worker=2), _pod_deleted)
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
