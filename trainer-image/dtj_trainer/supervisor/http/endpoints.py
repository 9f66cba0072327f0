"""What each route of the HTTP server answers: from the last published status, on the server's threads.

What a request asks of the supervisor is put into its inbox; the loop does it in its next turn.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from dtj_trainer.cluster.probes import accepts
from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.contract import UID_HEADER
from dtj_trainer.ipc.messages import Profile, SaveNow
from dtj_trainer.supervisor.http.metrics import Metrics, page
from dtj_trainer.supervisor.http.peer_client import PASSED_ON, pass_on
from dtj_trainer.supervisor.http.status import SupervisorStatus, status_body
from dtj_trainer.supervisor.inbox import Request
from dtj_trainer.supervisor.membership import Member, Refusal, refusal_of

HEALTHY_SECONDS: Final = 10.0
CHECKPOINT_SECONDS: Final = 60.0
"""Between two checkpoints that somebody asks for."""


class Endpoints:
    """The answers of one pod."""

    def __init__(
        self,
        status: Callable[[], SupervisorStatus],
        metrics: Metrics,
        put: Callable[[Request], None],
        peer_called: Callable[[Task, str], None],
        others: Mapping[Task, tuple[str, int]],
    ) -> None:
        """Set up; `put` queues a request for the supervisor, `peer_called` gets each calling peer and its address.

        `others`: HTTP host and port of every other pod of the job.
        """
        self._status = status
        self._metrics = metrics
        self._put = put
        self._peer_called = peer_called
        self._others = others
        self._lock = threading.Lock()
        self._checkpoint_at = -CHECKPOINT_SECONDS

    def metrics(self) -> bytes:
        """GET /metrics."""
        return page(self._metrics, self._status())

    def status(self) -> Mapping[str, object]:
        """GET /status."""
        return status_body(self._status())

    def healthy(self) -> bool:
        """GET /healthz: whether the supervisor's loop turns."""
        return time.monotonic() - self._status().published_at < HEALTHY_SECONDS

    def ready(self) -> bool:
        """GET /readyz: whether training steps are made, or a server serves."""
        status = self._status()
        if status.probe_port is not None:
            return accepts("127.0.0.1", status.probe_port)
        return time.monotonic() <= status.ready_until

    def member(self) -> Member:
        """GET /peer: what we tell our peers."""
        return self._status().member

    def meet(self, peer: Member, address: str) -> Refusal | None:
        """POST /peer: a peer tells about itself, from that address."""
        status = self._status()
        refusal = refusal_of(peer, status.member, status.known)
        if refusal is None:
            self._peer_called(peer.task, address)
            self._put(peer)
        return refusal

    def checkpoint(self, uid: str, *, passed_on: bool) -> int:
        """POST /checkpoint: the HTTP status."""
        if uid != self._status().member.job:
            return 403
        with self._lock:
            now = time.monotonic()
            if now - self._checkpoint_at < CHECKPOINT_SECONDS:
                return 429
            self._checkpoint_at = now
        self._put(SaveNow())
        if not passed_on:
            for host, port in self._others.values():
                headers = {UID_HEADER: uid, PASSED_ON: "1"}
                threading.Thread(target=pass_on, args=(host, port, "/checkpoint", headers), daemon=True).start()
        return 202

    def profile(self, uid: str, steps: int) -> int:
        """POST /profile: the HTTP status. Only this pod's process is asked."""
        if uid != self._status().member.job:
            return 403
        self._put(Profile(steps))
        return 202
