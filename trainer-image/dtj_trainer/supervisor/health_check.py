"""Whether a TensorFlow server still answers.

A frozen process keeps its listening socket: the kernel accepts for it. So the probe speaks the
first words of HTTP/2 (RFC 9113, section 3.4) and waits for the server's own first frame.
"""

from __future__ import annotations

import socket
import threading
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""Connection preface and an empty SETTINGS frame."""
ANSWER_SECONDS: Final = 3.0
EVERY_SECONDS: Final = 3.0
MISSES: Final = 3


def answers(port: int) -> bool:
    """Whether the gRPC server on this host's port says its first word in time."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS) as connection:
            connection.sendall(PREFACE)
            return bool(connection.recv(9))
    except OSError:
        return False


class SilenceWatch:
    """Probes a server every few seconds, on a thread of its own."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._next = 0.0
        self._misses = 0
        self._probing = False

    def restart(self, now: float) -> None:
        """A new server begins."""
        self._misses, self._next = 0, now + EVERY_SECONDS

    def silent(self, now: float) -> bool:
        """Whether it has missed several probes in a row; starts the next probe when due."""
        if now >= self._next and not self._probing:
            self._next = now + EVERY_SECONDS
            self._probing = True
            threading.Thread(target=self._probe, daemon=True).start()
        return self._misses >= MISSES

    def _probe(self) -> None:
        self._misses = 0 if answers(self._port) else self._misses + 1
        self._probing = False
