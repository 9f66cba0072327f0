"""Starts the zygote, first of all; the rest of its environment is sent with each order.

Imports little itself, because the recovery time of a replacement pod starts here.
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
    """A started zygote: a process that imports TensorFlow and forks on demand."""

    pid: int
    control: socket.socket
    environment: Mapping[str, str]
    """What it was started with."""

    def dismiss(self) -> None:
        """Kill and reap it, unless that is done already."""
        self.control.close()
        with suppress(ChildProcessError):
            if os.waitpid(self.pid, os.WNOHANG) == (0, 0):
                os.kill(self.pid, SIGKILL)


def begin(environment: Mapping[str, str]) -> Spawned | None:
    """Start a zygote with the settings that are known at once.

    Returns None on a TPU host, where libtpu needs settings that are known only later, and where no process can be
    created now: the pool tries again.
    """
    if tpu_there(environment):
        return None
    try:
        return spawn(defaults(environment))
    except OSError:
        return None


def defaults(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment, with defaults for variables that a process reads at its start."""
    libtpu = {} if tpu_there(environment) else WITHOUT_CHIPS
    return {"GRPC_FAIL_FAST": "use_caller", "PYTHONUNBUFFERED": "1", **KEEP_MEMORY, **libtpu, **environment}


def spawn(environment: Mapping[str, str]) -> Spawned:
    """Start a zygote; raises OSError if no process can be created."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        theirs.set_inheritable(True)
        command = [sys.executable, "-m", "dtj_trainer.preload.zygote", str(theirs.fileno())]
        pid = os.posix_spawn(sys.executable, command, environment)
    return Spawned(pid, ours, environment)
