"""The zygote: has imported TensorFlow, has run no op, and forks the process that trains.

Single-threaded in Python. It speaks over the SOCK_SEQPACKET pair whose descriptor number is its
only argument: {"fork": id, "order": {…}} with the child's link as passed descriptor comes in;
{"ready": seconds}, {"forked": id, "pid": n} and {"exited": pid, "status": n} go out.
When the supervisor is gone it takes its children with it.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
from operator import attrgetter
from typing import Any, Final

from dtj_trainer.link import LINK_FD, PACKET_BYTES, Message, decode, encode
from dtj_trainer.supervisor.ahead import fetched_ahead, import_present
from dtj_trainer.supervisor.deferral import defer, demand
from dtj_trainer.supervisor.omission import less_imported
from dtj_trainer.supervisor.repetition import unrepeated

PRELOADED: Final = ("numpy.random", "keras", "dtj_trainer.loop.fit", "dtj_trainer.loop.train", "dtj_trainer.data")
"""Imported ahead, after TensorFlow. What is missing is left to the program to miss."""
PUBLIC: Final = (
    "autograph",
    "config",
    "data",
    "distribute",
    "distribute.experimental",
    "math",
    "nest",
    "nn",
    "random",
    "train",
)
"""What every training uses of TensorFlow's public names: not left to each child to load."""
TWICE: Final = ("distribute", "lite")
"""Public names that packages of TensorFlow have too, which hide them from the moment they are imported."""


def main() -> None:
    """Import, then fork on demand until the supervisor closes its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    wake, woken = os.pipe()
    for descriptor in (wake, woken):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    control = socket.socket(fileno=int(sys.argv[1]))
    sources: list[socket.socket | int] = [control, wake]
    began = time.monotonic()
    preload()
    _say(control, {"ready": round(time.monotonic() - began, 3)})
    children: set[int] = set()
    while True:
        readable, _, _ = select.select(sources, [], [])
        if wake in readable:
            os.read(wake, 4096)
            _reap(control, children)
        if control in readable:
            packet, descriptors, _, _ = socket.recv_fds(control, PACKET_BYTES, 1)
            if not packet:
                _take_along(children)
            order = decode(packet)
            pid = _fork(control, order, descriptors, (wake, woken))
            children.add(pid)
            _say(control, {"forked": order.get("fork"), "pid": pid})


def preload() -> None:
    """Import TensorFlow and what every training needs beside it, for forks of this process."""
    gc.disable()
    defer()
    with fetched_ahead("dtj_trainer.supervisor.child"), unrepeated(), less_imported():
        _preload_tensorflow()
        import_present(PRELOADED)
    gc.freeze()  # it stays: no fork looks through it for garbage
    gc.enable()


def _preload_tensorflow() -> None:
    tensorflow: Any = importlib.import_module("tensorflow")
    _ = tensorflow.keras  # lazily loaded
    for name in TWICE:
        importlib.import_module(f"tensorflow.{name}")
        setattr(tensorflow, name, sys.modules[f"tensorflow._api.v2.{name}"])
    for name in PUBLIC:
        demand(attrgetter(name)(tensorflow))


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
    from dtj_trainer.supervisor import child  # imported already: the library is being loaded meanwhile

    return child.run(order["order"])


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
