"""The zygote: has imported TensorFlow, has run no op, and forks the process that trains.

Single-threaded in Python, once it has imported. It speaks over the socket whose descriptor number is its only argument:
Fork, with the process's connection as passed descriptor, and Retire come in; ZygoteReady, Started and Exited go out.
When the supervisor is gone, it kills its children and exits.
"""

from __future__ import annotations

import math
import os
import select
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING

from dtj_trainer.preload.read_ahead import ReadAhead

if TYPE_CHECKING:  # imported where it is needed: the library is being loaded meanwhile
    from dtj_trainer.ipc.connection import Connection
    from dtj_trainer.ipc.messages import Fork


def main() -> None:
    """Import, then fork on demand until the supervisor closes its end."""
    began = time.monotonic()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ahead = ReadAhead()
    wake, woken = os.pipe()
    for descriptor in (wake, woken):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    from dtj_trainer.ipc.connection import Connection
    from dtj_trainer.ipc.messages import Fork, Retire, Started, ZygoteReady
    from dtj_trainer.preload.imports import preload

    supervisor = Connection(socket.socket(fileno=int(sys.argv[1])))
    preload(ahead)
    supervisor.send(ZygoteReady(round(time.monotonic() - began, 3)), patience=math.inf)
    sources: list[Connection | int] = [supervisor, wake]
    children: set[int] = set()
    while True:
        readable, _, _ = select.select(sources, [], [])
        if wake in readable:
            os.read(wake, 4096)
            _reap(supervisor, children)
        if supervisor in readable:
            match supervisor.receive_with():
                case None, _:
                    _take_along(children)
                case Retire(), _:
                    _reap(supervisor, children)
                    os._exit(0)
                case Fork() as fork, descriptors:
                    pid = _fork(supervisor, fork, descriptors, (wake, woken))
                    children.add(pid)
                    supervisor.send(Started(fork.number, pid), patience=math.inf)


def _fork(supervisor: Connection, fork: Fork, descriptors: list[int], pipe: tuple[int, int]) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        for descriptor in descriptors:
            os.close(descriptor)
        return pid
    signal.set_wakeup_fd(-1)
    supervisor.close()
    for descriptor in pipe:
        os.close(descriptor)
    from dtj_trainer.ipc.connection import LINK_FD
    from dtj_trainer.process.main import run

    os.environ[LINK_FD] = str(descriptors[0])
    return run(fork.order)


def _reap(supervisor: Connection, children: set[int]) -> None:
    from dtj_trainer.ipc.messages import Exited

    while children:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        children.discard(pid)
        supervisor.send(Exited(pid, status), patience=math.inf)


def _take_along(children: set[int]) -> None:
    for pid in children:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    os._exit(0)


if __name__ == "__main__":
    main()
