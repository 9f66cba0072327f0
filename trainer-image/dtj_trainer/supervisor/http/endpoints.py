"""What each route of the HTTP server answers: from the last published status, on the server's threads.

What a request asks of the supervisor is put into its inbox; the loop does it in its next turn.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from dtj_trainer.cluster.probes import accepts
from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.ipc.messages import Profile, SaveNow
from dtj_trainer.supervisor.http.auth import EXEC, Authenticator, SignedRequest, Verdict, name_of
from dtj_trainer.supervisor.http.metrics import Metrics, page
from dtj_trainer.supervisor.http.peer_client import pass_on
from dtj_trainer.supervisor.http.status import SupervisorStatus, status_body
from dtj_trainer.supervisor.inbox import Request
from dtj_trainer.supervisor.membership import Member, refusal_of

HEALTHY_SECONDS: Final = 10.0
CHECKPOINT_SECONDS: Final = 60.0
"""Between two checkpoints that somebody asks for."""


class Answer(NamedTuple):
    """What a POST is answered."""

    status: int
    body: bytes = b""
    signature: str = ""


class Endpoints:
    """The answers of one pod."""

    def __init__(
        self,
        status: Callable[[], SupervisorStatus],
        metrics: Metrics,
        put: Callable[[Request], None],
        peer_called: Callable[[Task, str], None],
        others: Mapping[Task, tuple[str, int]],
        auth: Authenticator,
    ) -> None:
        """Set up; `put` queues a request for the supervisor, `peer_called` gets each calling peer and its address.

        `others`: HTTP host and port of every other pod of the cluster.
        """
        self._status = status
        self._metrics = metrics
        self._put = put
        self._peer_called = peer_called
        self._others = others
        self._auth = auth
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
        if status.probe is not None:
            return accepts(*status.probe)
        return time.monotonic() <= status.ready_until

    def meet(self, request: SignedRequest, address: str) -> Answer:
        """POST /peer: a peer tells about itself, from that address."""
        verdict = self._auth.check(request)
        if verdict is not Verdict.ACCEPTED:
            return self._refused(request, verdict)
        status = self._status()
        peer = Member.from_json(request.body)
        if peer is None:
            return Answer(400, b"not a member\n")
        sender = request.signature
        if peer.task not in self._others or (sender is not None and sender.sender != name_of(peer.task)):
            return Answer(403)
        refusal = refusal_of(peer, status.member, status.known)
        if refusal is not None:
            return self._signed(request, 409, refusal.encode())
        self._peer_called(peer.task, address)
        self._put(peer)
        return self._signed(request, 200, status.member.to_json())

    def checkpoint(self, request: SignedRequest) -> Answer:
        """POST /checkpoint: from a command in this pod, or from a peer that had it from one."""
        verdict = self._auth.check(request)
        if verdict is not Verdict.ACCEPTED:
            return self._refused(request, verdict)
        with self._lock:
            now = time.monotonic()
            if now - self._checkpoint_at < CHECKPOINT_SECONDS:
                return Answer(429)
            self._checkpoint_at = now
        self._put(SaveNow())
        sender = request.signature
        if sender is None or sender.sender == EXEC:
            pass_on(self._auth, self._others, "/checkpoint")
        return Answer(202)

    def profile(self, request: SignedRequest, steps: int) -> Answer:
        """POST /profile. Only this pod's process is asked."""
        verdict = self._auth.check(request)
        if verdict is not Verdict.ACCEPTED:
            return self._refused(request, verdict)
        self._put(Profile(steps))
        return Answer(202)

    def _refused(self, request: SignedRequest, verdict: Verdict) -> Answer:
        """Return 403; signed where the clocks differ, so that the sender can tell this from a stranger's answer."""
        return self._signed(request, 403, b"") if verdict is Verdict.LATE else Answer(403)

    def _signed(self, request: SignedRequest, status: int, body: bytes) -> Answer:
        return Answer(status, body, self._auth.sign_answer(request, status, body))
