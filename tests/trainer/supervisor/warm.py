"""`dtj-run` in a process that has imported TensorFlow: its zygote is a fork, and has nothing left to import.

Supervisor, zygote and training process are processes as always, each a child of the one before; only a zygote that
follows one that died is a new Python. The arguments are those of `dtj-run`.
"""

import json
import os
import socket
import sys
from collections.abc import Mapping

from dtj_trainer import run
from dtj_trainer.preload import spawn as spawning
from dtj_trainer.preload import zygote
from dtj_trainer.supervisor import process_pool

ORDER_BYTES = 1 << 20


class Zygote:
    """Forked while the supervisor has no thread yet; begins when one is to be started."""

    def __init__(self) -> None:
        self._order, orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            self._order.close()
            _wait_and_begin(orders)
        orders.close()

    def begin(self, environment: Mapping[str, str]) -> spawning.Spawned:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(self._order, [json.dumps(dict(environment)).encode()], [theirs.fileno()])
        self._order.close()
        return spawning.Spawned(self.pid, ours, environment)


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
    waiting, anew = [Zygote()], spawning.spawn

    def spawn(environment: Mapping[str, str]) -> spawning.Spawned:
        return waiting.pop().begin(environment) if waiting else anew(environment)

    spawning.spawn = process_pool.spawn = spawn  # type: ignore[attr-defined]
    run.main()


if __name__ == "__main__":
    main()
