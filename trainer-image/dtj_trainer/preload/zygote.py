"""The zygote: has imported TensorFlow, has run no op, and forks the process that trains.

Single-threaded in Python, once it has imported. It speaks over the SOCK_SEQPACKET pair whose descriptor number is its
only argument: {"fork": id, "order": {…}} with the child's link as passed descriptor comes in, and {"retire": true} when
no more will be asked for; {"ready": seconds}, {"forked": id, "pid": n} and {"exited": pid, "status": n} go out.
When the supervisor is gone it takes its children with it.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time

from dtj_trainer.ipc.reporter import LINK_FD, PACKET_BYTES, Message, decode, encode
from dtj_trainer.preload.read_ahead import Ahead


def main() -> None:
    """Import, then fork on demand until the supervisor closes its end."""
    began = time.monotonic()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ahead = Ahead()
    wake, woken = os.pipe()
    for descriptor in (wake, woken):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    control = socket.socket(fileno=int(sys.argv[1]))
    sources: list[socket.socket | int] = [control, wake]
    from dtj_trainer.preload.imports import preload  # meanwhile the library is being loaded

    preload(ahead)
    _say(control, {"ready": round(time.monotonic() - began, 3)})
    children: set[int] = set()
    while True:
        readable, _, _ = select.select(sources, [], [])
        if wake in readable:
            os.read(wake, 4096)
            _reap(control, children)
        if control in readable:
            packet, descriptors = _hear(control)
            if not packet:
                _take_along(children)
            order = decode(packet)
            if "retire" in order:
                _reap(control, children)
                os._exit(0)
            pid = _fork(control, order, descriptors, (wake, woken))
            children.add(pid)
            _say(control, {"forked": order.get("fork"), "pid": pid})


def _fork(control: socket.socket, order: Message, descriptors: list[int], pipe: tuple[int, int]) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        for descriptor in descriptors:
            os.close(descriptor)
        return pid
    signal.set_wakeup_fd(-1)
    control.close()
    for descriptor in pipe:
        os.close(descriptor)
    os.environ[LINK_FD] = str(descriptors[0])
    from dtj_trainer.process.main import run  # imported already: the library is being loaded meanwhile

    return run(order["order"])


def _reap(control: socket.socket, children: set[int]) -> None:
    while children:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        children.discard(pid)
        _say(control, {"exited": pid, "status": status})


def _hear(control: socket.socket) -> tuple[bytes, list[int]]:
    """An order, and what came with it. Nothing once the supervisor is gone."""
    try:
        packet, descriptors, _, _ = socket.recv_fds(control, PACKET_BYTES, 1)
    except ConnectionResetError:  # it went without having heard all that was said to it
        return b"", []
    return packet, descriptors


def _take_along(children: set[int]) -> None:
    for pid in children:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    os._exit(0)


def _say(control: socket.socket, message: Message) -> None:
    try:
        control.send(encode(message), socket.MSG_NOSIGNAL)
    except OSError:
        return


if __name__ == "__main__":
    main()
