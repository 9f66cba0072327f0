"""The processes of pods that run on this machine, seen from outside their containers.

The embedded cluster's containers are processes of this machine, and so are those of kind as long as docker is
local. A pod's processes are known by its UID, which stands in the path of their cgroup (v1 and v2, with the
cgroupfs and the systemd driver). Needs root, as the cluster itself does.
"""

import contextlib
import ctypes
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Process:
    """One process of a pod: `pid` and `parent` in the host's PID namespace, `inner` in the container's."""

    pid: int
    parent: int
    inner: int
    command: str


def processes(pod_uid: str) -> tuple[Process, ...]:
    """Return all processes of a pod, its sandbox's included; empty where the pod does not run here."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    found = (_process(pid, pod_uid) for pid in pids)
    return tuple(process for process in found if process is not None)


def training_process(family: tuple[Process, ...]) -> Process | None:
    """Return the process that trains: forked by the zygote, which PID 1 started, or started by PID 1 itself.

    A standby is forked after it, so its pid in the container is higher; on the host pids wrap around at 32,768. None
    while there is none.
    """
    inner = {process.pid: process.inner for process in family}
    forked = [process for process in family if process.inner != 1 and inner.get(process.parent, 1) != 1]
    started = [process for process in family if "dtj_trainer.process.main" in process.command]
    return min(forked or started, key=lambda process: process.inner, default=None)


def socket_inside(process: Process) -> socket.socket:
    """Return a TCP socket in the network namespace of `process`; the calling thread keeps its own."""
    with _namespace(Path("/proc/thread-self/ns/net")) as home, _namespace(Path(f"/proc/{process.pid}/ns/net")) as pod:
        _enter(pod)
        try:
            return socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        finally:
            _enter(home)


def _process(pid: int, pod_uid: str) -> Process | None:
    try:
        cgroups = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
        if pod_uid not in cgroups and pod_uid.replace("-", "_") not in cgroups:
            return None
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:  # it ended while we looked
        return None
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    if fields["State"].strip().startswith("Z"):
        return None
    return Process(pid, int(fields["PPid"]), int(fields["NSpid"].split()[-1]), command)


@contextlib.contextmanager
def _namespace(path: Path) -> Iterator[int]:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def _enter(handle: int) -> None:
    if _libc.setns(handle, CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"cannot enter a pod's network namespace: {os.strerror(code)}")
