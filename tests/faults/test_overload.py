"""Random events all at once: users, kubelets, crashing and competing operators, and a faulty API server.

There is no undisturbed run to compare with: what must hold at every commit and at the end does not depend on the order.
The events follow from the seed alone, as far as threads allow.
"""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.faults.fault_cluster import IN_PROCESS, STALE_SECONDS, FaultCluster, NotReached
from tests.faults.invariant_monitor import InvariantMonitor
from tests.support import job_builder
from tests.support.apiserver import Answer, Cut, Meanwhile, gateway_timeout, too_many_requests
from tests.support.apiserver.errors import Refusal
from tests.support.operator_process import USER_AGENT
from tests.support.status_checks import check_status

if TYPE_CHECKING:
    from tests.faults.invariants import Tracebacks
    from tests.support.apiserver import Object
    from tests.support.apiserver.faults import Outcome, Rule

KIND: Final = "distributedtrainingjobs"
JOBS: Final = 4
MOVES: Final = 24
OPERATORS: Final = 6
"""At most so many are started in one test: each takes a second of processor time."""
CODES: Final = (0, 0, 1, 1, 42, 75, 137, 143)
DISRUPTIONS: Final = ("PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI")


class Overload:
    """A random sequence of events for a few jobs, made from one seed."""

    def __init__(self, cluster: FaultCluster, seed: int) -> None:
        """Prepare; nothing happens before `run`."""
        self.cluster = cluster
        self.rng = random.Random(seed)
        self.names = [f"job-{number}" for number in range(JOBS)]
        self.told: list[str] = []
        """What was done, as lines for people."""
        self._rules: list[Rule] = []

    async def run(self) -> None:
        """Create the jobs, disturb them, then remove all faults."""
        for name in self.names:
            self._create(name)
        moves = [self._pod_ends] * 5 + [self._fault] * 5 + [self._edit] * 4 + [self._pod_deleted] * 2
        moves += [self._disrupted, self._unready, self._operators, self._again, self._silence]
        for _ in range(MOVES):
            await self.cluster.pass_time(self.rng.choice([0, 0.3, 1, 3]))
            with contextlib.suppress(Refusal):
                self.rng.choice(moves)()
        for rule in self._rules:
            rule.times = 0
        await self.cluster.pass_time(2 * STALE_SECONDS)
        self.cluster.kubelet.resume()
        for name in self.names:
            for pod in self._pods_of(name):
                self.cluster.kubelet.set_ready(pod["metadata"]["name"], ready=pod["status"].get("phase") == "Running")
            if self._job(name):
                self._patch(name, {"suspend": False})

    def settled(self) -> bool:
        """Tell whether every job has reached a state that lasts."""
        return all(_settled(job) for name in self.names if (job := self._job(name)))

    def stored_job(self, name: str) -> job_builder.JobBuilder:
        """Return a job and the objects it owns as they are stored, for `check_status`."""
        job = self._job(name)
        pods = {pod["metadata"]["name"]: pod for pod in self._pods_of(name)}
        service = self.cluster.server.get("services", self.cluster.namespace, name)
        return job_builder.JobBuilder(
            raw=job or {"spec": {"managedBy": ""}}, pods=pods, service=service, job_deleted=job is None
        )

    # what users do -----------------------------------------------------------------------

    def _create(self, name: str) -> None:
        rng = self.rng
        roles = {"worker": rng.randrange(4)}
        roles |= {role: 1 for role in ("chief", "ps", "evaluator") if rng.random() < 0.3}
        policies = {"ps": ["OnFailure", "Always", "ExitCode"], "evaluator": ["OnFailure", "Always", "Never"]}
        spec = {
            "strategy": {"type": "None" if "ps" in roles and rng.random() < 0.5 else "Auto"},
            "replicaSpecs": {
                role: {
                    "replicas": count,
                    "restartPolicy": rng.choice(policies.get(role, ["OnFailure", "OnFailure", "ExitCode", "Never"])),
                    "template": job_builder.template(),
                }
                for role, count in roles.items()
            },
            "successPolicy": {"type": rng.choice(["Chief", "AllWorkers"]), "waitForEvaluatorSeconds": 3},
            "failurePolicy": {
                "maxRestarts": rng.randrange(5),
                "restartScope": rng.choice(["Auto", "Pod", "Role", "Job"]),
                "backoff": {"initialSeconds": rng.randrange(2), "maxSeconds": 4, "resetAfterSeconds": 5},
            },
            "cleanPodPolicy": rng.choice(["Running", "All", "None"]),
            "suspend": rng.random() < 0.2,
        }
        spec |= {} if rng.random() < 0.8 else {"activeDeadlineSeconds": rng.choice([5, 30])}
        spec |= {} if rng.random() < 0.8 else {"ttlSecondsAfterFinished": rng.choice([0, 4])}
        with contextlib.suppress(Refusal):
            self._say(f"create {name} {roles}")
            self.cluster.server.create(KIND, {"metadata": {"name": name}, "spec": spec}, self.cluster.namespace)

    def _edit(self) -> None:
        workers = {"replicaSpecs": {"worker": {"replicas": self.rng.randrange(4)}}}
        edits: list[Object] = [workers, workers, {"suspend": True}, {"suspend": False}, {"suspend": False} | workers]
        edits += [{"activeDeadlineSeconds": 9}, {"ttlSecondsAfterFinished": 1}, {"failurePolicy": {"maxRestarts": 1}}]
        self._patch(self.rng.choice(self.names), self.rng.choice(edits))

    def _again(self) -> None:
        name = self.rng.choice(self.names)
        if self._job(name):
            self._say(f"delete {name}")
            self.cluster.server.delete(KIND, self.cluster.namespace, name)
        self._create(name)

    def _patch(self, name: str, spec: Object) -> None:
        if self._job(name):
            self._say(f"edit {name} {spec}")
            self.cluster.server.patch(KIND, self.cluster.namespace, name, {"spec": spec})

    # what happens to pods ----------------------------------------------------------------

    def _any_pod(self) -> str:
        return str(self.rng.choice([pod["metadata"]["name"] for pod in self.cluster.pods()] or [""]))

    def _pod_ends(self) -> None:
        pod, code = self._any_pod(), self.rng.choice(CODES)
        self._say(f"{pod} ends with {code}")
        self.cluster.kubelet.exit(pod, code)

    def _pod_deleted(self) -> None:
        if pod := self._any_pod():
            self._say(f"delete {pod}")
            self.cluster.delete_pod(pod, grace_seconds=self.rng.choice([0, None]))

    def _disrupted(self) -> None:
        if pod := self._any_pod():
            self._say(f"disrupt {pod}")
            self.cluster.kubelet.disrupt(pod, self.rng.choice(DISRUPTIONS))
            self.cluster.delete_pod(pod)

    def _unready(self) -> None:
        pod = self._any_pod()
        self._say(f"{pod} is not ready")
        self.cluster.kubelet.set_ready(pod, ready=False)

    def _silence(self) -> None:
        self.cluster.kubelet.halted = not self.cluster.kubelet.halted
        self._say(f"kubelets halted: {self.cluster.kubelet.halted}")
        if not self.cluster.kubelet.halted:
            self.cluster.kubelet.resume()

    # what happens to operators and their API server ---------------------------------------

    def _fault(self) -> None:
        cluster = self.cluster
        outcomes: dict[str, Outcome] = {
            "cut before": Cut(),
            "cut after": Cut(after_commit=True),
            "crash before": Cut(first=self._crash),
            "crash after": Cut(after_commit=True, first=self._crash),
            "timeout after": gateway_timeout(),
            "409": Answer(409, "Conflict"),
            "429": too_many_requests(1),
            "500": Answer(500),
            "503 after": Answer(503, "ServiceUnavailable", after_commit=True),
            "lag": Meanwhile(cluster.lag),
            "lag after": Meanwhile(cluster.lag, after_commit=True),
            "missed events": Meanwhile(cluster.lose_events, after_commit=True),
        }
        name, at = self.rng.choice(list(outcomes)), self.rng.randrange(3)
        self._say(f"{name} at write {at}")
        self._rules.append(cluster.server.faults.on_write(at, outcomes[name], user_agent=USER_AGENT))

    def _crash(self) -> None:
        if len(self.cluster.operators) < OPERATORS:
            self.cluster.crash()

    def _operators(self) -> None:
        if len(self.cluster.operators) < OPERATORS:
            self._say("one more operator")
            self.cluster.start_operator()

    def _pods_of(self, name: str) -> list[Object]:
        labels = ((pod, pod["metadata"].get("labels") or {}) for pod in self.cluster.pods())
        return [pod for pod, found in labels if found.get("dtj.dev/job-name") == name]

    def _job(self, name: str) -> Object | None:
        return self.cluster.server.get(KIND, self.cluster.namespace, name)

    def _say(self, words: str) -> None:
        self.told.append(f"{self.cluster.clock.elapsed():.1f} {words}")


def _settled(job: Object) -> bool:
    status: dict[str, Any] = job.get("status") or {}
    if status.get("observedGeneration") != job["metadata"]["generation"]:
        return False
    held = {one["type"] for one in status["conditions"] if one["status"] == "True"}
    idle = any(one["reason"] == "NoReplicas" for one in status["conditions"])
    return idle or (bool(held & {"Running", "Succeeded", "Failed", "Invalid"}) and "Suspended" not in held)


async def run_overload(seed: int, tracebacks: Tracebacks) -> list[str]:
    """Run one seed; return what went wrong followed by what was done, or nothing."""
    async with FaultCluster(IN_PROCESS) as cluster:
        monitor = InvariantMonitor(cluster)
        await cluster.start_operator().ready()
        overload = Overload(cluster, seed)
        wrong: list[str] = []
        try:
            await overload.run()
            await cluster.until_settled_as(overload.settled, "the end of all recoveries")
            await cluster.quiet()
            for name in overload.names:
                check_status(overload.stored_job(name))
        except (AssertionError, NotReached) as problem:
            wrong.append(repr(problem))
        wrong += monitor.double_pods + monitor.decreased_counts + monitor.other_violations
        wrong += tracebacks.of(cluster)
        wrong += [f"{operator.token} ended: {operator.error!r}" for operator in cluster.operators if operator.error]
        return [*wrong, *overload.told] if wrong else []


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(3))
async def test_after_any_overload_every_job_is_where_it_belongs(seed: int, tracebacks: Tracebacks):
    assert await run_overload(seed, tracebacks) == []
