"""`dtj-run` in a process that has imported TensorFlow: its zygote is a fork, and has nothing left to import.

Supervisor, zygote and training process are processes as always, each a child of the one before; only a zygote that
follows one that died is a new Python. The arguments are those of `dtj-run`.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from dtj_trainer import run
from dtj_trainer.supervisor import nursery, zygote

ORDER_BYTES = 1 << 20


class Zygote:
    """Forked while the supervisor has no thread yet; begins when the nursery starts one. It is told as by `Popen`."""

    def __init__(self) -> None:
        self.returncode: int | None = None
        self._order, orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            self._order.close()
            _wait_and_begin(orders)
        orders.close()

    def begin(self, control: int, environment: Mapping[str, str]) -> None:
        socket.send_fds(self._order, [json.dumps(dict(environment)).encode()], [control])
        self._order.close()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def _wait_and_begin(orders: socket.socket) -> None:
    order, controls, _, _ = socket.recv_fds(orders, ORDER_BYTES, 1)
    orders.close()
    if not order:
        os._exit(0)
    os.environ.update(json.loads(order))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # PYTHONUNBUFFERED is read at the start
    sys.argv = ["zygote", str(controls[0])]
    zygote.main()


def main() -> None:
    waiting = [Zygote()]

    def popen(command: Sequence[str], *, pass_fds: Sequence[int], env: Mapping[str, str]) -> Any:
        if zygote.__name__ not in command or not waiting:
            return subprocess.Popen(command, pass_fds=pass_fds, env=env)
        forked = waiting.pop()
        forked.begin(pass_fds[0], env)
        return forked

    nursery.subprocess = SimpleNamespace(Popen=popen)  # type: ignore[assignment, attr-defined]
    run.main()


if __name__ == "__main__":
    main()
