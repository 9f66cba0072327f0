"""What must hold at every commit of one cluster: no double pods, no decreasing counter, no reopened job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.apiserver import Commit, EventType

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.fault_cluster import FaultCluster
    from tests.support.apiserver import Object


@dataclass(frozen=True, slots=True)
class _EarlyPod:
    """A pod that was created with a higher attempt than its job's status showed so far."""

    name: str
    job: str
    attempt: int
    revision: int

    def follows(self, commit: Commit) -> bool:
        """Tell whether the status had that attempt first: a real server's watches of two kinds come in any order."""
        job = commit.object
        return job["metadata"]["uid"] == self.job and commit.revision < self.revision and _attempt(job) >= self.attempt


@dataclass(slots=True)
class InvariantMonitor:
    """A listener that checks every commit of one cluster and collects what is wrong."""

    cluster: FaultCluster
    double_pods: list[str] = field(default_factory=list)
    decreased_counts: list[str] = field(default_factory=list)
    repeated_successes: list[str] = field(default_factory=list)
    reverted: list[str] = field(default_factory=list)
    """Completed replicas or finished jobs that were not any more."""
    _early_pods: list[_EarlyPod] = field(default_factory=list)
    _stop: Callable[[], None] = lambda: None
    _done: set[tuple[str, ...]] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Start listening."""
        self._stop = self.cluster.server.on_commit(self._check)

    @property
    def violations(self) -> list[str]:
        """All violations found so far."""
        return self.double_pods + self.decreased_counts + self.repeated_successes + self.other_violations

    @property
    def other_violations(self) -> list[str]:
        """Completions that were reverted, and pods that were created before their attempt stood in the status."""
        early = [
            f"{pod.name} was created at attempt {pod.attempt} before that stood in status" for pod in self._early_pods
        ]
        return self.reverted + early

    def _check(self, commit: Commit) -> None:
        if commit.kind.plural == "pods" and commit.event_type == EventType.ADDED:
            self._check_replica(commit.object)
            self._check_attempt(commit)
        if commit.kind.plural == "pods" and commit.object["status"].get("phase") == "Succeeded":
            self._done.add((*_replica(commit.object), _label(commit.object, "job-uid")))
        if commit.kind.plural == "distributedtrainingjobs":
            self._early_pods = [pod for pod in self._early_pods if not pod.follows(commit)]
        if commit.kind.plural == "distributedtrainingjobs" and commit.event_type == EventType.MODIFIED:
            self._check_counts(commit.previous or {}, commit.object)
            self._check_completion(commit.previous or {}, commit.object)

    def _check_replica(self, pod: Object) -> None:
        replica = _replica(pod)
        others = [
            other
            for other in self.cluster.server.list("pods")
            if _replica(other) == replica and other["metadata"]["uid"] != pod["metadata"]["uid"]
        ]
        if others:
            names = ", ".join(str(other["metadata"]["name"]) for other in others)
            self.double_pods.append(f"{pod['metadata']['name']} was created while {names} had its replica {replica}")
        if (*replica, _label(pod, "job-uid")) in self._done:
            self.repeated_successes.append(f"{pod['metadata']['name']} was created again after it had succeeded")

    def _check_counts(self, old: Object, new: Object) -> None:
        before, after = _counts(old), _counts(new)
        self.decreased_counts += [
            f"{name} went from {was} to {after[name]}" for name, was in before.items() if after[name] < was
        ]

    def _check_attempt(self, commit: Commit) -> None:
        pod = commit.object
        name, uid, attempt = pod["metadata"]["name"], _label(pod, "job-uid"), int(_label(pod, "attempt"))
        job = self.cluster.server.get("distributedtrainingjobs", pod["metadata"]["namespace"], _label(pod, "job-name"))
        if job is not None and job["metadata"]["uid"] == uid and attempt > _attempt(job):
            self._early_pods.append(_EarlyPod(name, uid, attempt, commit.revision))

    def _check_completion(self, old: Object, new: Object) -> None:
        before, after = old.get("status") or {}, new.get("status") or {}
        name = new["metadata"]["name"]
        for role, indexes in (before.get("completed") or {}).items():
            if not set(indexes) <= set((after.get("completed") or {}).get(role) or ()):
                self.reverted.append(f"{name}: completed {role} {indexes} became {after.get('completed')}")
        if _end(before) and _end(before) != _end(after):
            self.reverted.append(f"{name} had ended as {_end(before)}, now it has as {_end(after)}")


def _end(status: Object) -> list[object]:
    """Return how and when a job finished; empty while it has not."""
    kinds = [one["type"] for one in status.get("conditions") or () if one["status"] == "True"]
    ends: list[object] = [kind for kind in kinds if kind in {"Succeeded", "Failed"}]
    return [*ends, status.get("completionTime")] if ends else []


def _attempt(job: Object) -> int:
    return int((job.get("status") or {}).get("attempt", -1))


def _counts(job: Object) -> dict[str, int]:
    """Return the counters that may only grow while a job exists."""
    status = job.get("status") or {}
    restarts = status.get("restarts") or {}
    return {
        "attempt": status.get("attempt") or 0,
        "restarts.total": restarts.get("total") or 0,
        "restarts.charged": restarts.get("charged") or 0,
    }


def _label(pod: Object, name: str) -> str:
    return str((pod["metadata"].get("labels") or {}).get(f"dtj.dev/{name}", ""))


def _replica(pod: Object) -> tuple[str, ...]:
    return (pod["metadata"]["namespace"], *(_label(pod, name) for name in ("job-name", "role", "index")))
