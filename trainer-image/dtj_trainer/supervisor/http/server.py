"""HTTP on port 9401: GET /metrics, /healthz, /readyz, /status; signed POST /peer, /checkpoint, /profile?steps=N.

How many requests are answered at the same time, how large they are and how long they may take is bounded: whoever
reaches the port can delay answers, and take no memory from the training.
"""

from __future__ import annotations

import io
import json
import socket
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs

from dtj_trainer.contract import SIGNATURE_HEADER
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.supervisor.http.auth import SignedRequest
from dtj_trainer.supervisor.http.endpoints import Answer, Endpoints
from dtj_trainer.supervisor.http.peer_client import PEER_PATH

PROFILED_STEPS: Final = "20"
"""Where the caller does not say how many."""
PROFILED_STEPS_MAX: Final = 1_000
"""A profile is held in memory until its last step."""
CONNECTIONS: Final = 64
"""Requests, and so threads, at the same time."""
REQUEST_BYTES: Final = 16_384
"""A request with its header."""
BODY_BYTES: Final = 4_096
REQUEST_SECONDS: Final = 5.0
"""For a whole request to arrive."""
SLOT_SECONDS: Final = 1.0
"""How long a new connection waits for the thread of one that was cut off."""


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
        self._slots = threading.BoundedSemaphore(CONNECTIONS)
        self._lock = threading.Lock()
        self._open: dict[socket.socket, str] = {}
        """The connections that have a thread, the oldest first, and the address of each."""
        super().__init__(address, handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "dtj-run", self.server_address[1]

    def process_request(self, request: socket.socket, client_address: tuple[str, int]) -> None:  # type: ignore[override]
        """Answer on a thread; when all are taken, cut off the oldest connection of whoever has most of them."""
        if not self._slots.acquire(blocking=False):
            self._cut_off()
            if not self._slots.acquire(timeout=SLOT_SECONDS):
                super().shutdown_request(request)
                return
        with self._lock:
            self._open[request] = client_address[0]
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        """Close a connection, and give its thread's place to the next one."""
        with self._lock:
            had_slot = self._open.pop(request, None) is not None
        super().shutdown_request(request)
        if had_slot:
            self._slots.release()

    def _cut_off(self) -> None:
        with self._lock:
            if not self._open:
                return
            ((busiest, _),) = Counter(self._open.values()).most_common(1)
            oldest = next(connection for connection, address in self._open.items() if address == busiest)
            try:
                oldest.shutdown(socket.SHUT_RDWR)  # wakes its thread
            except OSError:
                return  # it has just ended

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a caller that hung up."""


class _BoundedInput(io.RawIOBase):
    """What a connection sends, up to REQUEST_BYTES and for REQUEST_SECONDS."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._left = REQUEST_BYTES
        self._until = time.monotonic() + REQUEST_SECONDS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        seconds = self._until - time.monotonic()
        if seconds <= 0 or not self._left:
            raise TimeoutError  # which ends the connection
        self._connection.settimeout(seconds)
        count = self._connection.recv_into(buffer, min(len(buffer), self._left))
        self._left -= count
        return count


class _Handler(BaseHTTPRequestHandler):
    endpoints: Endpoints
    timeout = REQUEST_SECONDS
    server_version = "dtj-run"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_BoundedInput(self.connection))  # type: ignore[type-var]

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
            case _:
                self._answer(404, b"not found\n")

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length") or "0"
        if not (length.isascii() and length.isdecimal()):
            self._answer(400, b"Content-Length is a number of bytes\n")
            return
        if len(length) > len(f"{BODY_BYTES}") or int(length) > BODY_BYTES:
            self._answer(413, b"at most %d bytes\n" % BODY_BYTES)
            return
        body = self.rfile.read(int(length))
        address = self.client_address[0].removeprefix("::ffff:")
        local = address == "::1" or address.startswith("127.")
        request = SignedRequest("POST", self.path, body, self.headers.get(SIGNATURE_HEADER, ""), local)
        path, _, query = self.path.partition("?")
        match path:
            case _ if path == PEER_PATH:
                self._send(self.endpoints.meet(request, address))
            case "/checkpoint":
                self._send(self.endpoints.checkpoint(request))
            case "/profile":
                asked = parse_qs(query).get("steps", [PROFILED_STEPS])[-1]
                steps = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 9 else 0  # noqa: PLR2004
                if 0 < steps <= PROFILED_STEPS_MAX:
                    self._send(self.endpoints.profile(request, steps))
                else:
                    self._answer(400, b"steps is a number from 1 to %d, as in /profile?steps=20\n" % PROFILED_STEPS_MAX)
            case _:
                self._answer(404, b"not found\n")

    def _say(self, good: bool) -> None:  # noqa: FBT001 - the answer itself
        self._answer(200 if good else 503, b"ok\n" if good else b"not now\n")

    def _send(self, answer: Answer) -> None:
        self._answer(answer.status, answer.body, signature=answer.signature)

    def _answer(self, code: int, body: bytes, kind: str = "text/plain", *, signature: str = "") -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if signature:
            self.send_header(SIGNATURE_HEADER, signature)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the overridden
        """Write no access log: probes come every second."""
