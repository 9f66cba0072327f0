"""Starts the zygote, before all else: the rest of its environment follows with each order.

Imports little itself: a pod that takes another's place begins here.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from signal import SIGKILL
from typing import Final, NamedTuple

from dtj_trainer.cluster.accelerators import tpu_there

KEEP_MEMORY: Final = {"MALLOC_TOP_PAD_": f"{64 << 20}", "MALLOC_MMAP_THRESHOLD_": f"{32 << 20}"}
"""Let glibc keep what a step frees for the next one (mallopt(3)). By default it hands large tensors, and the heaps of
TensorFlow's threads, back to the kernel each time, and a convolutional network spends half of its time in page faults
(docs/decisions/043-malloc-settings.md).
"""
WITHOUT_CHIPS: Final = {"TPU_LOAD_LIBRARY": "0"}
"""Keep tensorflow-tpu from loading libtpu where there are no chips to claim. By default it does that while it is
imported, and off Google's cloud libtpu then asks for a metadata server, for more than ten minutes.
"""


class Spawned(NamedTuple):
    """A zygote: a process that imports TensorFlow and forks on demand."""

    pid: int
    control: socket.socket
    environment: Mapping[str, str]
    """What it was started with."""

    def dismiss(self) -> None:
        """End it, unless it has ended and been waited for."""
        self.control.close()
        with suppress(ChildProcessError):
            if os.waitpid(self.pid, os.WNOHANG) == (0, 0):
                os.kill(self.pid, SIGKILL)


def begin(environment: Mapping[str, str]) -> Spawned | None:
    """Start a zygote with what is known at once.

    None where there are chips of a TPU: libtpu reads what is known later.
    """
    if tpu_there(environment):
        return None
    return spawn(defaults(environment))


def defaults(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment, with what has to be there from a process's start, unless it says otherwise."""
    libtpu = {} if tpu_there(environment) else WITHOUT_CHIPS
    return {"GRPC_FAIL_FAST": "use_caller", "PYTHONUNBUFFERED": "1", **KEEP_MEMORY, **libtpu, **environment}


def spawn(environment: Mapping[str, str]) -> Spawned:
    """Start a zygote; raises OSError where no process can be made now."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        theirs.set_inheritable(True)
        command = [sys.executable, "-m", "dtj_trainer.preload.zygote", str(theirs.fileno())]
        pid = os.posix_spawn(sys.executable, command, environment)
    return Spawned(pid, ours, environment)
