"""Jobs whose pods change all the time: no change is lost, and none is reported late."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from dtj_operator.app import kopf_app
from dtj_operator.app.manager import Manager
from dtj_operator.kube.rest_config import RestConfig, Token
from tests.component.running_operator import JOBS, condition, job, status
from tests.support.apiserver import ApiServer, Commit
from tests.support.fasttime import IdleLoop
from tests.support.kubelet import Kubelet
from tests.support.operator_process import QUIET

MANY = 12
CHANGES = 120
EVERY_SECONDS = 0.02
HELD_SECONDS = 1.0
"""How long changes of counts alone may be delayed (api.md, Status)."""
SPARE_SECONDS = 0.1
RESTART_SECONDS = 1.0
"""The longest wait of BUDGET before a pod is replaced that ended again and again."""
BUDGET = {"maxRestarts": CHANGES, "backoff": {"initialSeconds": 0, "maxSeconds": 1, "resetAfterSeconds": 600}}
SEED = 20


class Lateness:
    """A measurement of how long each job's status differed from its pods, in the loop's own time."""

    def __init__(self, server: ApiServer, loop: IdleLoop) -> None:
        self.longest = 0.0
        self.wrong: dict[str, float] = {}
        """By job, since when its status differs."""
        self._server = server
        self._loop = loop
        server.on_commit(self._notice)

    def _notice(self, commit: Commit) -> None:
        metadata = commit.object["metadata"]
        plural = commit.kind.plural
        if plural in {"pods", JOBS}:
            self._compare(metadata["name"] if plural == JOBS else metadata["labels"]["dtj.dev/job-name"])

    def _compare(self, name: str) -> None:
        found = self._server.get(JOBS, "default", name) or {}
        told = ((found.get("status") or {}).get("replicaStatuses") or {}).get("worker") or {}
        pods = [self._server.get("pods", "default", f"{name}-worker-{index}") for index in range(2)]
        there = [pod for pod in pods if pod is not None]
        if (told.get("created"), told.get("ready")) == (len(there), sum(map(_is_ready, there))):
            self._matches(name)
        else:
            self.wrong.setdefault(name, self._loop.time())

    def _matches(self, name: str) -> None:
        self.longest = max(self.longest, self._loop.time() - self.wrong.pop(name, self._loop.time()))


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return not pod["metadata"].get("deletionTimestamp") and any(
        (one["type"], one["status"]) == ("Ready", "True") for one in conditions
    )


async def churn(server: ApiServer, kubelet: Kubelet) -> None:
    """Fail and delete pods, and change their readiness, in random order."""
    dice = random.Random(SEED)
    for _ in range(CHANGES):
        name = f"job-{dice.randrange(MANY)}-worker-{dice.randrange(2)}"
        match dice.randrange(4):
            case 0:
                kubelet.exit(name, dice.choice([1, 42, 137]))
            case 1 if server.get("pods", "default", name):
                server.delete("pods", "default", name)
            case _:
                kubelet.set_ready(name, ready=dice.random() < 0.5)
        await asyncio.sleep(EVERY_SECONDS)


def test_every_change_of_every_pod_is_told_within_the_second():
    loop = IdleLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(scenario(loop))


async def scenario(loop: IdleLoop) -> None:
    async with ApiServer(now=loop.now) as server, Kubelet(server) as kubelet:
        rest_config = RestConfig(server=server.url, token=Token("operator"))
        manager = Manager(QUIET, rest_config, lost=lambda: None, now=loop.now)
        running = asyncio.create_task(kopf_app.run(manager))
        await manager.ready.wait()
        for number in range(MANY):
            server.create(JOBS, job(f"job-{number}", failurePolicy=BUDGET))
        names = [f"job-{number}" for number in range(MANY)]
        while not all(condition(server, "Running", name)[0] == "True" for name in names):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        await asyncio.sleep(2 * HELD_SECONDS)
        loop.hurry()
        lateness = Lateness(server, loop)
        await churn(server, kubelet)
        await asyncio.sleep(RESTART_SECONDS + HELD_SECONDS + SPARE_SECONDS)
        assert lateness.wrong == {}, "changes that were lost"
        assert lateness.longest <= HELD_SECONDS + SPARE_SECONDS
        assert len([one for one in names if status(server, one)["restarts"]["total"]]) > MANY / 4, "too little happened"
        manager.ending.set()
        await running
