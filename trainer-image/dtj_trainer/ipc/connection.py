"""A SOCK_SEQPACKET socket that sends and receives messages.

The training process finds its end in the file descriptor named by `DTJ_LINK_FD`; without that variable (a laptop) its
connection neither sends nor receives, with the same methods.

Sending never raises, even if the connection is broken.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from functools import cache
from typing import Final

from dtj_trainer.ipc.messages import Message, decode, encode

LINK_FD: Final = "DTJ_LINK_FD"
PACKET_BYTES: Final = 65536
PATIENCE_SECONDS: Final = 1.0
"""How long to wait for a receiver that is too busy to take a message."""
RETRY_SECONDS: Final = 0.002


class Connection:
    """An end of a connection. All methods may be called from any thread."""

    def __init__(self, sock: socket.socket | None) -> None:
        self._sock = sock
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """Return the descriptor, for selectors; -1 once closed."""
        return -1 if self._sock is None else self._sock.fileno()

    @property
    def connected(self) -> bool:
        """Whether this end is open."""
        return self.fileno() >= 0

    def close(self) -> None:
        """Close this end: it sends and receives nothing from now on."""
        if self._sock is not None:
            self._sock.close()

    def close_after_fork(self) -> None:
        """Close this end in a process that the program has forked, whatever its parent's threads held."""
        self._lock = threading.Lock()
        self.close()

    def send(self, message: Message, *, patience: float = PATIENCE_SECONDS) -> bool:
        """Send within `patience` seconds; False when the receiver was too busy."""
        packet = encode(message)
        give_up = time.monotonic() + patience
        with self._lock:
            while self._sock is not None:
                try:
                    self._sock.send(packet, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                except BlockingIOError:
                    if time.monotonic() >= give_up:
                        return False
                    time.sleep(RETRY_SECONDS)
                except OSError:
                    return True  # the receiver is gone
                else:
                    return True
        return True

    def receive(self) -> Message | None:
        """Return the next message; None when the other end is closed.

        Raises OSError when this end is closed, and BlockingIOError when there is no message yet and it does not block.
        """
        while (packet := self._receive()) and (message := decode(packet)) is None:
            continue
        return message if packet else None

    def _receive(self) -> bytes:
        while self._sock is not None:
            try:
                return self._sock.recv(PACKET_BYTES)
            except ConnectionResetError:
                continue  # told once, before what the other end had said, when it closed without having read all
        return b""

    def send_with(self, message: Message, descriptor: int) -> None:
        """Send a message and a file descriptor; raises OSError where that is not possible now."""
        if self._sock is None:
            raise ConnectionError("the connection is closed")
        socket.send_fds(self._sock, [encode(message)], [descriptor])

    def receive_with(self) -> tuple[Message | None, list[int]]:
        """Return the next message and the descriptors that came with it; None when the other end is closed."""
        if self._sock is None:
            return None, []
        try:
            packet, descriptors, _, _ = socket.recv_fds(self._sock, PACKET_BYTES, 1)
        except ConnectionResetError:  # it went without having read all that was said to it
            return None, []
        return decode(packet), descriptors


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return a connected pair of sockets that keep packets apart."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def connection_pair() -> tuple[Connection, socket.socket]:
    """Return the supervisor's end, which does not block, and the socket that a training process is given."""
    ours, theirs = socket_pair()
    ours.setblocking(False)
    return Connection(ours), theirs


@cache
def supervisor_connection() -> Connection:
    """Return this training process's end, made once from the environment."""
    number = os.environ.get(LINK_FD, "")
    connection = Connection(socket.socket(fileno=int(number)) if number.isdigit() else None)
    os.register_at_fork(after_in_child=connection.close_after_fork)
    return connection
