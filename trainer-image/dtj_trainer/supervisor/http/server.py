"""HTTP on port 9401: /metrics, /healthz, /readyz, /status, /peer, POST /checkpoint, POST /profile?steps=N."""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs

from dtj_trainer.contract import UID_HEADER
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.supervisor.http.endpoints import Endpoints
from dtj_trainer.supervisor.http.peer_client import BODY_BYTES, PASSED_ON, PEER_PATH
from dtj_trainer.supervisor.membership import Member

PROFILED_STEPS: Final = "20"
"""Where the caller does not say how many."""
PROFILED_STEPS_MAX: Final = 1_000
"""A profile is held in memory until its last step."""


class HttpServer:
    """The HTTP server, on its own daemon threads."""

    def __init__(self, port: int, endpoints: Endpoints) -> None:
        """Raises PreflightFailed when the port cannot be had."""
        handler = type("Handler", (_Handler,), {"endpoints": endpoints})
        try:
            self._server = _Server(("", port), handler)
        except OSError as error:
            message = f"port {port} cannot be used ({error.strerror}); stop what uses it, or give --port"
            raise PreflightFailed(message) from None

    def open(self) -> None:
        """Answer requests from now on."""
        threading.Thread(target=self._server.serve_forever, args=(0.5,), name="dtj-http", daemon=True).start()

    def close(self) -> None:
        """Stop. The thread ends first: it would poll on, at a descriptor that may be another's by then."""
        self._server.socket.shutdown(socket.SHUT_RDWR)  # wakes it
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
        super().__init__(address, handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "dtj-run", self.server_address[1]

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a caller that hung up."""


class _Handler(BaseHTTPRequestHandler):
    endpoints: Endpoints
    timeout = 5
    server_version = "dtj-run"
    sys_version = ""

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/metrics":
                self._answer(200, self.endpoints.metrics(), "text/plain; version=0.0.4")
            case "/status":
                self._answer(200, json.dumps(self.endpoints.status()).encode(), "application/json")
            case "/healthz":
                self._say(self.endpoints.healthy())
            case "/readyz":
                self._say(self.endpoints.ready())
            case path if path == PEER_PATH:
                self._answer(200, self.endpoints.member().to_json(), "application/json")
            case _:
                self._answer(404, b"not found\n")

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length") or "0"
        if not length.isdecimal():
            self._answer(400, b"Content-Length is a number of bytes\n")
            return
        body = self.rfile.read(min(int(length[:9]), BODY_BYTES))
        match self.path.partition("?")[0]:
            case path if path == PEER_PATH:
                peer = Member.from_json(body)
                if peer is None:
                    self._answer(400, b"not a member\n")
                elif (refusal := self.endpoints.meet(peer, self._caller())) is not None:
                    self._answer(409, refusal.encode())
                else:
                    self._answer(200, self.endpoints.member().to_json(), "application/json")
            case "/checkpoint":
                uid = self.headers.get(UID_HEADER, "")
                self._answer(self.endpoints.checkpoint(uid, passed_on=PASSED_ON in self.headers), b"")
            case "/profile":
                asked = parse_qs(self.path.partition("?")[2]).get("steps", [PROFILED_STEPS])[-1]
                if asked.isdecimal() and 0 < int(asked) <= PROFILED_STEPS_MAX:
                    self._answer(self.endpoints.profile(self.headers.get(UID_HEADER, ""), int(asked)), b"")
                else:
                    self._answer(400, b"steps is a number from 1 to %d, as in /profile?steps=20\n" % PROFILED_STEPS_MAX)
            case _:
                self._answer(404, b"not found\n")

    def _caller(self) -> str:
        address: str = self.client_address[0]
        return address.removeprefix("::ffff:")

    def _say(self, good: bool) -> None:  # noqa: FBT001 - the answer itself
        self._answer(200 if good else 503, b"ok\n" if good else b"not now\n")

    def _answer(self, code: int, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the overridden
        """Write no access log: probes come every second."""
