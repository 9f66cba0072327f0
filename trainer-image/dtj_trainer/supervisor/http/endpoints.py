"""What the desk answers from, on its own threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from dtj_trainer.cluster.probes import accepts
from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.contract import UID_HEADER
from dtj_trainer.ipc.messages import Profile, SaveNow
from dtj_trainer.supervisor.http.peer_client import pass_on
from dtj_trainer.supervisor.http.server import PASSED_ON
from dtj_trainer.supervisor.http.status import Pod
from dtj_trainer.supervisor.membership import Identity, Refusal

HEALTHY_SECONDS: Final = 10.0
CHECKPOINT_SECONDS: Final = 60.0
"""Between two checkpoints that somebody asks for."""


class PodFacts:
    """The desk's `Facts` of one pod; `notify` wakes its supervision."""

    def __init__(self, pod: Pod, notify: Callable[[], None], called: Callable[[Task, str], None]) -> None:
        """`called` is told of each peer of ours that calls, and from where."""
        self._pod = pod
        self._notify = notify
        self._called = called
        self._checkpoint_at = -CHECKPOINT_SECONDS

    def metrics(self) -> str:
        """The page of /metrics."""
        pod = self._pod
        with pod.lock:
            ready = len(pod.place.peers) - len(pod.missing())
            standby = pod.standby.process if pod.standby else None
            return pod.metrics.text(
                peers_ready=ready,
                standby_ready=standby is not None and standby.prepared,
                child=pod.child.pid if pod.child else None,
            )

    def status(self) -> Mapping[str, Any]:
        """The object of /status."""
        pod = self._pod
        with pod.lock:
            return {
                **pod.progress.status(),
                "role": pod.place.task.role,
                "index": pod.place.task.index,
                "attempt": pod.place.attempt,
                "uid": pod.place.uid,
                "phase": self._phase(),
                "restarts": pod.restarts,
            }

    def _phase(self) -> str:
        pod, progress = self._pod, self._pod.progress
        if pod.departure.done:
            return "done"
        if pod.departure.stopping:
            return "leaving"
        if pod.child is None or not pod.child.released:
            return "restarting" if pod.has_run else "waiting"
        if progress.serving:
            return "serving"
        return progress.phase or ("training" if progress.stepped else "starting")

    def healthy(self) -> bool:
        """Whether the supervision turns."""
        return time.monotonic() - self._pod.turned_at < HEALTHY_SECONDS

    def ready(self) -> bool:
        """Whether training steps are made, or a server serves."""
        pod = self._pod
        with pod.lock:
            if pod.child is None or not pod.child.released or pod.departure.stopping:
                return False
            if pod.serves:
                return pod.progress.serving
            if pod.ours or pod.progress.managed:
                return pod.progress.alive(time.monotonic())
            if not pod.member:
                return True
            endpoint = pod.place.config.endpoint(pod.place.task)
        return accepts("127.0.0.1", endpoint[1])

    def identity(self) -> Identity:
        """What we tell our peers."""
        return self._pod.rendezvous.me

    def meet(self, peer: Identity, address: str) -> Refusal | None:
        """A peer tells where it stands, from that address."""
        with self._pod.lock:
            refusal = self._pod.rendezvous.hear(peer)
        if refusal is None:
            self._called(peer.task, address)
        self._notify()
        return refusal

    def checkpoint(self, uid: str, *, passed_on: bool) -> int:
        """POST /checkpoint: the HTTP status."""
        pod = self._pod
        if uid != pod.place.uid:
            return 403
        with pod.lock:
            now = time.monotonic()
            if now - self._checkpoint_at < CHECKPOINT_SECONDS:
                return 429
            self._checkpoint_at = now
            if pod.child is not None and pod.child.released:
                pod.child.say(SaveNow())
            else:
                pod.checkpoint_owed = True
        if not passed_on:
            for host, port in pod.place.endpoints.values():
                headers = {UID_HEADER: uid, PASSED_ON: "1"}
                threading.Thread(target=pass_on, args=(host, port, "/checkpoint", headers), daemon=True).start()
        return 202

    def profile(self, uid: str, steps: int) -> int:
        """POST /profile: the HTTP status. Only this pod's process is asked."""
        pod = self._pod
        if uid != pod.place.uid:
            return 403
        with pod.lock:
            if pod.child is not None:
                pod.child.say(Profile(steps))
        return 202
