"""Everything at once, in any order: jobs of many kinds, users, kubelets, operators that die or are two, a sick server.

There is no undisturbed run to compare with: what must hold at every commit and in the end does not depend on the order.
A storm is made from its seed alone, as far as threads allow.
"""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.faults.fault_cluster import IN_PROCESS, STALE_SECONDS, NotReached, World
from tests.faults.invariants import Watchman
from tests.support import job_builder as pure
from tests.support.apiserver import Answer, Cut, Meanwhile, gateway_timeout, too_many_requests
from tests.support.apiserver.errors import Refusal
from tests.support.operator_process import USER_AGENT
from tests.support.truth import truthful

if TYPE_CHECKING:
    from tests.faults.invariants import Tracebacks
    from tests.support.apiserver import Object
    from tests.support.apiserver.faults import Outcome, Rule

KIND: Final = "distributedtrainingjobs"
JOBS: Final = 4
MOVES: Final = 24
OPERATORS: Final = 6
"""More are not started in one storm: each takes a second of the machine."""
CODES: Final = (0, 0, 1, 1, 42, 75, 137, 143)
DISRUPTIONS: Final = ("PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI")


class Storm:
    """What happens to some jobs, from one seed."""

    def __init__(self, world: World, seed: int) -> None:
        """Nothing happens before `rage`."""
        self.world = world
        self.dice = random.Random(seed)
        self.names = [f"job-{number}" for number in range(JOBS)]
        self.told: list[str] = []
        """What was done, for people."""
        self._rules: list[Rule] = []

    async def rage(self) -> None:
        """All of it; then the sun comes out."""
        for name in self.names:
            self._create(name)
        moves = [self._pod_ends] * 5 + [self._fault] * 5 + [self._edit] * 4 + [self._pod_deleted] * 2
        moves += [self._disrupted, self._unready, self._operators, self._again, self._silence]
        for _ in range(MOVES):
            await self.world.pass_time(self.dice.choice([0, 0.3, 1, 3]))
            with contextlib.suppress(Refusal):
                self.dice.choice(moves)()
        for rule in self._rules:
            rule.times = 0
        await self.world.pass_time(2 * STALE_SECONDS)
        self.world.kubelet.resume()
        for name in self.names:
            for pod in self._pods_of(name):
                self.world.kubelet.set_ready(pod["metadata"]["name"], ready=pod["status"].get("phase") == "Running")
            if self._job(name):
                self._patch(name, {"suspend": False})

    def settled(self) -> bool:
        """Whether every job has come to where it stays."""
        return all(_settled(job) for name in self.names if (job := self._job(name)))

    def family(self, name: str) -> pure.World:
        """A job and its children as they are stored, for the oracles."""
        job = self._job(name)
        pods = {pod["metadata"]["name"]: pod for pod in self._pods_of(name)}
        service = self.world.server.get("services", self.world.namespace, name)
        return pure.World(raw=job or {"spec": {"managedBy": ""}}, pods=pods, service=service, job_deleted=job is None)

    # what users do -----------------------------------------------------------------------

    def _create(self, name: str) -> None:
        dice = self.dice
        roles = {"worker": dice.randrange(4)}
        roles |= {role: 1 for role in ("chief", "ps", "evaluator") if dice.random() < 0.3}
        policies = {"ps": ["OnFailure", "Always", "ExitCode"], "evaluator": ["OnFailure", "Always", "Never"]}
        spec = {
            "strategy": {"type": "None" if "ps" in roles and dice.random() < 0.5 else "Auto"},
            "replicaSpecs": {
                role: {
                    "replicas": count,
                    "restartPolicy": dice.choice(policies.get(role, ["OnFailure", "OnFailure", "ExitCode", "Never"])),
                    "template": pure.template(),
                }
                for role, count in roles.items()
            },
            "successPolicy": {"type": dice.choice(["Chief", "AllWorkers"]), "waitForEvaluatorSeconds": 3},
            "failurePolicy": {
                "maxRestarts": dice.randrange(5),
                "restartScope": dice.choice(["Auto", "Pod", "Role", "Job"]),
                "backoff": {"initialSeconds": dice.randrange(2), "maxSeconds": 4, "resetAfterSeconds": 5},
            },
            "cleanPodPolicy": dice.choice(["Running", "All", "None"]),
            "suspend": dice.random() < 0.2,
        }
        spec |= {} if dice.random() < 0.8 else {"activeDeadlineSeconds": dice.choice([5, 30])}
        spec |= {} if dice.random() < 0.8 else {"ttlSecondsAfterFinished": dice.choice([0, 4])}
        with contextlib.suppress(Refusal):
            self._say(f"create {name} {roles}")
            self.world.server.create(KIND, {"metadata": {"name": name}, "spec": spec}, self.world.namespace)

    def _edit(self) -> None:
        workers = {"replicaSpecs": {"worker": {"replicas": self.dice.randrange(4)}}}
        edits: list[Object] = [workers, workers, {"suspend": True}, {"suspend": False}, {"suspend": False} | workers]
        edits += [{"activeDeadlineSeconds": 9}, {"ttlSecondsAfterFinished": 1}, {"failurePolicy": {"maxRestarts": 1}}]
        self._patch(self.dice.choice(self.names), self.dice.choice(edits))

    def _again(self) -> None:
        name = self.dice.choice(self.names)
        if self._job(name):
            self._say(f"delete {name}")
            self.world.server.delete(KIND, self.world.namespace, name)
        self._create(name)

    def _patch(self, name: str, spec: Object) -> None:
        if self._job(name):
            self._say(f"edit {name} {spec}")
            self.world.server.patch(KIND, self.world.namespace, name, {"spec": spec})

    # what becomes of pods ----------------------------------------------------------------

    def _any_pod(self) -> str:
        return str(self.dice.choice([pod["metadata"]["name"] for pod in self.world.pods()] or [""]))

    def _pod_ends(self) -> None:
        pod, code = self._any_pod(), self.dice.choice(CODES)
        self._say(f"{pod} ends with {code}")
        self.world.kubelet.exit(pod, code)

    def _pod_deleted(self) -> None:
        if pod := self._any_pod():
            self._say(f"delete {pod}")
            self.world.delete_pod(pod, grace_seconds=self.dice.choice([0, None]))

    def _disrupted(self) -> None:
        if pod := self._any_pod():
            self._say(f"disrupt {pod}")
            self.world.kubelet.disrupt(pod, self.dice.choice(DISRUPTIONS))
            self.world.delete_pod(pod)

    def _unready(self) -> None:
        pod = self._any_pod()
        self._say(f"{pod} is not ready")
        self.world.kubelet.set_ready(pod, ready=False)

    def _silence(self) -> None:
        self.world.kubelet.halted = not self.world.kubelet.halted
        self._say(f"kubelets halted: {self.world.kubelet.halted}")
        if not self.world.kubelet.halted:
            self.world.kubelet.resume()

    # what befalls operators and their server ---------------------------------------------

    def _fault(self) -> None:
        world = self.world
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
            "lag": Meanwhile(world.lag),
            "lag after": Meanwhile(world.lag, after_commit=True),
            "missed events": Meanwhile(world.lose_events, after_commit=True),
        }
        name, at = self.dice.choice(list(outcomes)), self.dice.randrange(3)
        self._say(f"{name} at write {at}")
        self._rules.append(world.server.faults.on_write(at, outcomes[name], user_agent=USER_AGENT))

    def _crash(self) -> None:
        if len(self.world.operators) < OPERATORS:
            self.world.crash()

    def _operators(self) -> None:
        if len(self.world.operators) < OPERATORS:
            self._say("one more operator")
            self.world.start_operator()

    def _pods_of(self, name: str) -> list[Object]:
        labels = ((pod, pod["metadata"].get("labels") or {}) for pod in self.world.pods())
        return [pod for pod, found in labels if found.get("dtj.dev/job-name") == name]

    def _job(self, name: str) -> Object | None:
        return self.world.server.get(KIND, self.world.namespace, name)

    def _say(self, words: str) -> None:
        self.told.append(f"{self.world.clock.elapsed():.1f} {words}")


def _settled(job: Object) -> bool:
    status: dict[str, Any] = job.get("status") or {}
    if status.get("observedGeneration") != job["metadata"]["generation"]:
        return False
    held = {one["type"] for one in status["conditions"] if one["status"] == "True"}
    idle = any(one["reason"] == "NoReplicas" for one in status["conditions"])
    return idle or (bool(held & {"Running", "Succeeded", "Failed", "Invalid"}) and "Suspended" not in held)


async def weather(seed: int, tracebacks: Tracebacks) -> list[str]:
    """What went wrong in the storm of that seed, and what had happened."""
    async with World(IN_PROCESS) as world:
        watchman = Watchman(world)
        await world.start_operator().ready()
        storm = Storm(world, seed)
        wrong: list[str] = []
        try:
            await storm.rage()
            await world.until_settled_as(storm.settled, "the end of all recoveries")
            await world.quiet()
            for name in storm.names:
                truthful(storm.family(name))
        except (AssertionError, NotReached) as problem:
            wrong.append(repr(problem))
        wrong += watchman.double_pods + watchman.charges_taken_back + watchman.laws_broken
        wrong += tracebacks.of(world)
        wrong += [f"{operator.token} ended: {operator.error!r}" for operator in world.operators if operator.error]
        return [*wrong, *storm.told] if wrong else []


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(3))
async def test_after_any_storm_every_job_is_where_it_belongs(seed: int, tracebacks: Tracebacks):
    assert await weather(seed, tracebacks) == []
