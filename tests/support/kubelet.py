"""A simulated scheduler and kubelet: binds pods, starts them, ends them as scripted, confirms deletions.

    async with Kubelet(server) as kubelet:
        kubelet.script("train-worker-1", PodBehavior(exit_code=1, seconds=0.01))   # its first incarnation only
        kubelet.exit("train-worker-0", 0)                                          # now

Times are real seconds and short. It acts as an administrator, on either server: the one in this process and a real one.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from tests.support.apiserver import Commit, EventType
from tests.support.apiserver.kinds import PODS
from tests.support.apiserver.registry import timestamp
from tests.support.ports import PROCESS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from tests.support.apiserver import Object


class Server(Protocol):
    """What the kubelet needs of an API server. It does not change an object that was replaced meanwhile."""

    @property
    def namespace(self) -> str:
        """The default namespace."""
        ...

    def now(self) -> datetime:
        """Return the time."""
        ...

    def get(self, plural: str, namespace: str, name: str) -> Object | None:
        """The object, or None."""
        ...

    def list(self, plural: str, namespace: str | None = None) -> list[Object]:
        """All objects of a kind."""
        ...

    def create(self, plural: str, body: Object, namespace: str | None = None) -> object:
        """Create an object."""
        ...

    def patch(self, plural: str, namespace: str, name: str, body: Any, *, subresource: str = "") -> object:
        """Merge-patch an object or its status."""
        ...

    def bind(self, pod: Object, node: str) -> Object:
        """Bind a pod to a node; returns the bound pod."""
        ...

    def confirm_deletion(self, pod: Object) -> None:
        """Confirm that a deleted pod has ended."""
        ...

    def on_commit(self, listener: Callable[[Commit], None]) -> Callable[[], None]:
        """Call `listener` at every change, in order; the returned function removes it."""
        ...


@dataclass(frozen=True, slots=True)
class PodBehavior:
    """What one incarnation of a pod does."""

    exit_code: int | None = None
    """None: it runs until it is deleted, or until `Kubelet.exit`."""
    seconds: float = 0.0
    """How long it runs before it exits by itself."""
    reason: str = ""
    """The container's terminated reason; empty = Completed or Error."""
    message: str = ""
    """The termination message."""
    bound: bool = True
    """False: no node is found for it."""
    starts: bool = True
    """False: it is bound and stays Pending."""


class Kubelet:
    """All nodes of the simulated cluster."""

    def __init__(
        self,
        server: Server,
        *,
        nodes: Sequence[str] = ("node-a", "node-b"),
        start_seconds: float = 0.004,
        stop_seconds: float = 0.004,
    ) -> None:
        """`start_seconds`: from the creation to Ready; `stop_seconds`: from a deletion to the end of the object."""
        self.server = server
        self.nodes = tuple(nodes)
        self.start_seconds = start_seconds
        self.stop_seconds = stop_seconds
        self.halted = False
        """While True no deletion is confirmed and no pod started."""
        self._behaviors: dict[str, list[PodBehavior]] = defaultdict(list)
        self._incarnations: dict[str, list[str]] = defaultdict(list)
        self._timers: set[asyncio.TimerHandle] = set()
        self._stop_listening: Callable[[], None] = lambda: None

    async def __aenter__(self) -> Self:
        """Register the nodes, and take over the pods that are there."""
        for node in self.nodes:
            if self.server.get("nodes", "", node) is None:
                self.server.create("nodes", {"metadata": {"name": node, "labels": {"kubernetes.io/hostname": node}}})
                ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
                self.server.patch("nodes", "", node, {"status": {"conditions": [ready]}}, subresource="status")
        self._stop_listening = self.server.on_commit(self._notice)
        for pod in self.server.list("pods"):
            self._see(pod)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        self._stop_listening()
        for timer in self._timers:
            timer.cancel()

    # for tests ---------------------------------------------------------------------------

    def script(self, pod: str, *behaviors: PodBehavior) -> None:
        """Script the first incarnations of a pod, in order; later ones run until they are deleted."""
        self._behaviors[pod] = list(behaviors)

    def incarnations(self, pod: str) -> int:
        """Return how many pod objects of this name there have been."""
        return len(self._incarnations[pod])

    def exit(self, pod: str, code: int, *, namespace: str = "", message: str = "", reason: str = "") -> bool:
        """End the main container of the running incarnation; False if there is none."""
        namespace = namespace or self.server.namespace
        found = self.server.get("pods", namespace, pod)
        if found is None or found["status"].get("phase") != "Running" or found["metadata"].get("deletionTimestamp"):
            return False
        self._exit(found["metadata"]["uid"], namespace, pod, PodBehavior(code, reason=reason, message=message))
        return True

    def set_ready(self, pod: str, *, namespace: str = "", ready: bool) -> None:
        """Change the Ready condition of a running pod."""
        found = self.server.get("pods", namespace or self.server.namespace, pod)
        if found is not None:
            self._status(found, {"conditions": _conditions(found, ready=ready, now=self._now())})

    def disrupt(self, pod: str, reason: str, *, namespace: str = "") -> None:
        """Set the condition DisruptionTarget, as an eviction does."""
        found = self.server.get("pods", namespace or self.server.namespace, pod)
        if found is not None:
            condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "for the test"}
            others = [old for old in found["status"].get("conditions", []) if old["type"] != "DisruptionTarget"]
            self._status(found, {"conditions": [*others, condition]})

    def resume(self) -> None:
        """End a halt and catch up."""
        self.halted = False
        for pod in self.server.list("pods"):
            self._see(pod)

    # what it does ------------------------------------------------------------------------

    def _notice(self, commit: Commit) -> None:
        if commit.kind == PODS and commit.event_type != EventType.DELETED:
            self._see(commit.object)

    def _see(self, pod: Object) -> None:
        metadata = pod["metadata"]
        uid, place, name = metadata["uid"], metadata["namespace"], metadata["name"]
        new = uid not in self._incarnations[name]
        if new:
            self._incarnations[name].append(uid)
        if self.halted:
            return
        if metadata.get("deletionTimestamp"):
            self._later(self.stop_seconds, lambda: self._confirm(uid, place, name))
        elif new or not pod["spec"].get("nodeName"):
            self._later(self.start_seconds, lambda: self._start(uid, place, name))

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        def run() -> None:
            self._timers.discard(timer)
            act()

        timer = asyncio.get_running_loop().call_later(seconds, run)
        self._timers.add(timer)

    def _behavior(self, uid: str, name: str) -> PodBehavior:
        behaviors, at = self._behaviors[name], self._incarnations[name].index(uid)
        return behaviors[at] if at < len(behaviors) else PodBehavior()

    def _current(self, uid: str, namespace: str, name: str) -> Object | None:
        pod = self.server.get("pods", namespace, name)
        return pod if pod is not None and pod["metadata"]["uid"] == uid and not self.halted else None

    def _start(self, uid: str, namespace: str, name: str) -> None:
        pod = self._current(uid, namespace, name)
        if pod is None or pod["metadata"].get("deletionTimestamp") or pod["status"].get("startTime"):
            return
        behavior = self._behavior(uid, name)
        if not behavior.bound:
            unbound = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes fit"}
            self._status(pod, {"conditions": [unbound]})
            return
        number = sum(name.encode())
        node = self.nodes[number % len(self.nodes)]
        if not pod["spec"].get("nodeName"):
            pod = self.server.bind(pod, node)
        if not behavior.starts:
            return
        self._status(pod, self._running(pod, restarts=0, address=_address(number)))
        if behavior.exit_code is not None:
            self._later(behavior.seconds, lambda: self._exit(uid, namespace, name, behavior))

    def _running(self, pod: Object, *, restarts: int, address: str) -> Object:
        now = self._now()
        return {
            "phase": "Running",
            "startTime": now,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": _conditions(pod, ready=True, now=now),
            "containerStatuses": [
                {
                    "name": container["name"],
                    "ready": True,
                    "started": True,
                    "restartCount": restarts,
                    "state": {"running": {"startedAt": now}},
                    "lastState": {},
                    "image": container["image"],
                    "imageID": container["image"],
                }
                for container in pod["spec"]["containers"]
            ],
        }

    def _exit(self, uid: str, namespace: str, name: str, behavior: PodBehavior) -> None:
        pod = self._current(uid, namespace, name)
        if pod is None or pod["status"].get("phase") != "Running" or behavior.exit_code is None:
            return
        policy = pod["spec"]["restartPolicy"]
        again = policy == "Always" or (policy == "OnFailure" and behavior.exit_code != 0)
        now = self._now()
        ended = {
            "exitCode": behavior.exit_code,
            "reason": behavior.reason or ("Completed" if behavior.exit_code == 0 else "Error"),
            "startedAt": pod["status"]["startTime"],
            "finishedAt": now,
            **({"message": behavior.message} if behavior.message else {}),
        }
        statuses = [self._ended(status, ended, now, again=again) for status in pod["status"]["containerStatuses"]]
        change: Object = {"containerStatuses": statuses}
        if not again:
            change["phase"] = "Succeeded" if behavior.exit_code == 0 else "Failed"
            change["conditions"] = _conditions(pod, ready=False, now=now)
        self._status(pod, change)

    def _ended(self, status: Object, ended: Object, now: str, *, again: bool) -> Object:
        if again:
            restarted = {"state": {"running": {"startedAt": now}}, "lastState": {"terminated": ended}}
            return {**status, **restarted, "restartCount": status["restartCount"] + 1}
        return {**status, "ready": False, "started": False, "state": {"terminated": ended}}

    def _confirm(self, uid: str, namespace: str, name: str) -> None:
        pod = self._current(uid, namespace, name)
        if pod is not None:
            self.server.confirm_deletion(pod)

    def _status(self, pod: Object, change: Object) -> None:
        place, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        self.server.patch("pods", place, name, json.loads(json.dumps({"status": change})), subresource="status")

    def _now(self) -> str:
        return timestamp(self.server.now())


def _conditions(pod: Object, *, ready: bool, now: str) -> list[Object]:
    """Return the pod's conditions with Ready as given, and the others of a started pod."""
    ours = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
    kept = [old for old in pod["status"].get("conditions", []) if old["type"] not in ours]
    return kept + [
        {"type": name, "status": str(value), "lastTransitionTime": now, "lastProbeTime": None}
        for name, value in ours.items()
    ]


def _address(number: int) -> str:
    """Return a loopback address for a pod; parallel test processes use others."""
    return f"127.{77 + PROCESS}.{number // 250 % 250}.{number % 250 + 1}"
