"""A small cluster with an operator in it, in accelerated time, on the API server in this process or on a real one."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from tests.support.apiserver import Answer, ApiServer
from tests.support.fasttime import FastClock, FastLoop
from tests.support.kubelet import Kubelet
from tests.support.operator_process import QUIET, USER_AGENT, OperatorProcess
from tests.support.realserver import RealServer

if TYPE_CHECKING:
    from dtj_operator.app.settings import Settings
    from tests.support.apiserver import Object
    from tests.support.apiserver.log import Request
    from tests.support.realserver import RealCluster

SWITCH_SECONDS: Final = 0.0005
"""A dozen threads share one interpreter lock; with Python's default of 5 ms the server would wait too long for it."""
WATCHED: Final = ("distributedtrainingjobs", "pods", "services")
STALE_REVISIONS: Final = 6
STALE_SECONDS: Final = 4.0
"""Seconds of cluster time that a stale or broken view lasts."""
JOB: Final = "train"
POLL_SECONDS: Final = 0.01
QUIET_SECONDS: Final = 2.5
"""Seconds of cluster time without any write after which nothing more is expected."""
QUIET_LIMIT: Final = 8
"""How many such periods may contain writes after the end state: the last events, retries of a refused write."""
PATIENCE_SECONDS: Final = 480.0
"""Seconds of cluster time that anything waited for may take."""


class NotReached(Exception):  # noqa: N818 - a finding, not a mistake of this program
    """A wait that timed out; the message says for what, and describes the cluster."""


@dataclass(frozen=True, slots=True)
class Backend:
    """The kind of API server that fault clusters run on."""

    name: str
    server: Callable[[FastClock], ApiServer | RealServer]
    """Makes a new one, not started."""
    speed: float
    """Seconds of cluster time in a real second."""
    at_once: int
    """Clusters that run at the same time: most of a run is waiting."""


IN_PROCESS: Final = Backend("in process", lambda clock: ApiServer(now=clock.now), speed=12.0, at_once=6)


def on_real_cluster(cluster: RealCluster) -> Backend:
    """Return the backend of a real API server, which is slower."""
    return Backend("real", lambda clock: RealServer(cluster, now=clock.now), speed=6.0, at_once=8)


class FaultCluster:
    """An API server, a kubelet, a clock and operators; leaves nothing behind."""

    def __init__(self, backend: Backend) -> None:
        """Prepare; nothing runs before the cluster is entered."""
        self.clock = FastClock(backend.speed)
        self.server = backend.server(self.clock)
        self.kubelet = Kubelet(self.server)
        self.operators: list[OperatorProcess] = []
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Start server and kubelet; operators are started by `start_operator`."""
        sys.setswitchinterval(SWITCH_SECONDS)
        beating = asyncio.create_task(self.clock.run())
        self._stack.callback(beating.cancel)
        await self._stack.enter_async_context(self.server)
        await self._stack.enter_async_context(self.kubelet)
        return self

    async def __aexit__(self, *_: object) -> None:
        """End everything."""
        for operator in self.operators:
            operator.kill()
        for operator in self.operators:
            await operator.ended()
        await self._stack.aclose()

    # operators ---------------------------------------------------------------------------

    def start_operator(self, settings: Settings = QUIET) -> OperatorProcess:
        """Start one more operator."""
        loop = FastLoop(self.clock.speed, self.clock.elapsed)
        operator = OperatorProcess(self.server, loop=loop, now=self.clock.now, settings=settings)
        self.server.grant_operator_role(operator.token)
        self.operators.append(operator.start())
        return operator

    def crash(self) -> None:
        """`kill -9` all operators that run, and start a new one."""
        for operator in self.operators:
            operator.kill()
        self.start_operator()

    def lag(self) -> None:
        """Stop all watches for some seconds; the last writes are not shown either."""
        for plural in WATCHED:
            self.server.freeze(plural, back=STALE_REVISIONS)
        self._later(STALE_SECONDS, self._catch_up)

    def crash_and_lag(self) -> None:
        """Crash; the new operator's watches stand still for some seconds."""
        self.lag()
        self.crash()

    def _catch_up(self) -> None:
        for plural in WATCHED:
            self.server.thaw(plural)

    def lose_events(self) -> None:
        """End all streams, answer lists and watches with 503 for some seconds, and forget the history."""
        rule = self.server.faults.add(lambda request: request.verb in {"list", "watch"}, Answer(503), times=None)
        self.server.break_streams()

        def end() -> None:
            self.server.forget_history()
            self.server.faults.rules.remove(rule)

        self._later(STALE_SECONDS, end)

    def _later(self, seconds: float, act: Callable[[], object]) -> None:
        asyncio.get_running_loop().call_later(seconds / self.clock.speed, act)

    def writes(self) -> list[Request]:
        """Return the operators' writes so far, without those to leases."""
        return self.server.log.writes(USER_AGENT)

    # the job -----------------------------------------------------------------------------

    @property
    def namespace(self) -> str:
        """Where everything is."""
        return self.server.namespace

    @property
    def job(self) -> Object | None:
        """The job as it is stored."""
        return self.server.get("distributedtrainingjobs", self.namespace, JOB)

    @property
    def status(self) -> Object:
        """The job's status; empty when there is none."""
        found = self.job
        return (found or {}).get("status") or {}

    def holds(self, condition: str) -> bool:
        """Tell whether a condition of the job is True and the status is about the current spec."""
        found = self.job
        if found is None or self.status.get("observedGeneration") != found["metadata"]["generation"]:
            return False
        return any(
            entry["type"] == condition and entry["status"] == "True" for entry in self.status.get("conditions", [])
        )

    def pods(self) -> list[Object]:
        """All pods."""
        return self.server.list("pods", self.namespace)

    def apply(self, job: Object) -> None:
        """Create a job."""
        self.server.create("distributedtrainingjobs", job, self.namespace)

    def change(self, patch: Object) -> None:
        """Merge-patch the job."""
        self.server.patch("distributedtrainingjobs", self.namespace, JOB, patch)

    async def touch(self) -> None:
        """Change the job and revert the change: only its resourceVersion differs afterwards."""
        if self.job is not None:
            self.change({"metadata": {"annotations": {"touched": "now"}}})
            self.change({"metadata": {"annotations": None}})
            await self.server.settled()

    def delete_job(self) -> None:
        """Delete the job."""
        self.server.delete("distributedtrainingjobs", self.namespace, JOB)

    def delete_pod(self, name: str, *, grace_seconds: int | None = None) -> None:
        """Delete a pod as a user would."""
        self.server.delete("pods", self.namespace, name, grace_seconds=grace_seconds)

    # waits -------------------------------------------------------------------------------

    async def until(self, reached: Callable[[], bool], what: str) -> None:
        """Wait until all requests are done, then until `reached` holds; raises NotReached."""
        await self.server.settled()
        gives_up = self.clock.elapsed() + PATIENCE_SECONDS
        while not reached():
            if self.clock.elapsed() > gives_up:
                raise NotReached(f"{what} was not reached within {PATIENCE_SECONDS:.0f} s; {self.describe()}")
            await asyncio.sleep(POLL_SECONDS)

    async def until_settled_as(self, state: Callable[[], bool], what: str) -> None:
        """Do as `until`, for conditions on stored objects alone: checks again only when something was stored."""
        seen = -1
        answer = False

        def reached() -> bool:
            nonlocal seen, answer
            if self.server.revision != seen:
                seen, answer = self.server.revision, state()
            return answer

        await self.until(reached, what)

    async def pass_time(self, seconds: float) -> None:
        """Let so many seconds of cluster time pass."""
        await self.server.settled()
        ends = self.clock.elapsed() + seconds
        while (left := ends - self.clock.elapsed()) > 0:  # noqa: ASYNC110 - time may stand still meanwhile
            await asyncio.sleep(left / self.clock.speed)

    async def quiet(self) -> None:
        """Wait until nothing has been written for a while; raises NotReached if that never happens."""
        for _ in range(QUIET_LIMIT):
            seen = len(self.writes())
            await self.pass_time(QUIET_SECONDS)
            if len(self.writes()) == seen:
                return
        raise NotReached(f"a time without writes was not reached; {self.describe()}")

    def describe(self) -> str:
        """Describe job, pods and last writes in one line."""
        pods = ", ".join(
            f"{pod['metadata']['name']} {pod['status'].get('phase')}"
            f"{' (deleting)' if pod['metadata'].get('deletionTimestamp') else ''}"
            for pod in self.pods()
        )
        errors = "; ".join(f"{operator.token}: {operator.error!r}" for operator in self.operators if operator.error)
        last = ", ".join(request.target for request in self.writes()[-5:])
        phase = f"{self.status.get('phase')} ({self.status.get('message')})" if self.job else "absent"
        return f"job {phase}; pods: {pods or 'none'}; last writes: {last or 'none'}; errors: {errors or 'none'}"
