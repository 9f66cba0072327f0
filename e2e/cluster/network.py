"""The cluster's network: namespaces joined by a bridge, without a route to the outside.

One namespace for the control plane holds the bridge; each node has its own,
with one end of a veth pair as eth0. None has a route to the host or beyond.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.interface import ClusterError

CONTROL_ADDRESS = "10.222.0.1"
PREFIX = "dtj-"
NAMED = Path("/run/netns")
KILL_LIMIT = 30.0


@dataclass(frozen=True)
class NodeAddress:
    """The addresses of node number `index` (from 1)."""

    index: int

    @property
    def address(self) -> str:
        """Return its address on the bridge."""
        return f"10.222.0.{10 + self.index}"

    @property
    def pods(self) -> str:
        """Return the range of its pods."""
        return f"10.244.{self.index}.0/24"

    @property
    def port(self) -> str:
        """Return the interface at the bridge end of its link."""
        return f"cable{self.index}"


def control_namespace(cluster: str) -> str:
    """Return the name of the control plane's network namespace."""
    return f"{PREFIX}{cluster}-control"


def node_namespace(cluster: str, index: int) -> str:
    """Return the name of a node's network namespace."""
    return f"{PREFIX}{cluster}-node-{index}"


def build(cluster: str, nodes: int) -> None:
    """Create the whole network."""
    control = control_namespace(cluster)
    _ip("netns", "add", control)
    lines = ["link set lo up", "link add br0 type bridge", f"addr add {CONTROL_ADDRESS}/24 dev br0", "link set br0 up"]
    for index in range(1, nodes + 1):
        node = NodeAddress(index)
        own = node_namespace(cluster, index)
        _ip("netns", "add", own)
        lines += [
            f"link add {node.port} type veth peer name eth0 netns {own}",
            f"link set {node.port} master br0 up",
            f"route add {node.pods} via {node.address}",
        ]
    _ip("-n", control, "-batch", "-", stdin=lines)
    _forward(control)
    for index in range(1, nodes + 1):
        node = NodeAddress(index)
        inside = ["link set lo up", f"addr add {node.address}/24 dev eth0", "link set eth0 up"]
        _ip(
            "-n",
            node_namespace(cluster, index),
            "-batch",
            "-",
            stdin=[*inside, f"route add default via {CONTROL_ADDRESS}"],
        )
        _forward(node_namespace(cluster, index))


def add_namespace(name: str) -> None:
    """Create a network namespace in which nothing but loopback is up."""
    _ip("netns", "add", name)
    _ip("-n", name, "link", "set", "lo", "up")


def set_link(cluster: str, index: int, state: str) -> None:
    """Set a node's link `up` or `down`.

    The route to its pods depends on the node's address, and so stays.
    """
    _ip("-n", control_namespace(cluster), "link", "set", NodeAddress(index).port, state)


def namespaces(cluster: str) -> list[str]:
    """Return the names of the cluster's namespaces that exist now."""
    if not NAMED.is_dir():
        return []
    return sorted(entry.name for entry in NAMED.iterdir() if entry.name.startswith(f"{PREFIX}{cluster}-"))


def remove(cluster: str) -> None:
    """Kill every process inside the cluster's namespaces, then the namespaces.

    Processes are found through /proc, so that one whose pid was never recorded is
    found too. Killing the init of a machine ends its containers as well, although
    these have network namespaces of their own.
    """
    for name in namespaces(cluster):
        with contextlib.suppress(OSError):
            inode = (NAMED / name).stat().st_ino
            _kill_members(name, inode)
            _ip("netns", "delete", name)
            _kill_members(name, inode)


def members(inode: int) -> list[int]:
    """Return the processes whose network namespace is the one with that inode number."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "ns" / "net").stat().st_ino == inode and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found


def _kill_members(name: str, inode: int) -> None:
    deadline = time.monotonic() + KILL_LIMIT
    while pids := members(inode):
        if time.monotonic() > deadline:
            raise ClusterError(
                f"Processes {pids} in network namespace {name} do not die: end them yourself, then run down again."
            )
        for pid in pids:
            with contextlib.suppress(OSError):
                handle = os.pidfd_open(pid)
                try:
                    if Path(f"/proc/{pid}/ns/net").stat().st_ino == inode:
                        signal.pidfd_send_signal(handle, signal.SIGKILL)
                finally:
                    os.close(handle)
        time.sleep(0.02)


def _forward(name: str) -> None:
    """Enable routing between a namespace's interfaces, and iptables for bridged pod traffic where the kernel can."""
    script = (
        "echo 1 > /proc/sys/net/ipv4/ip_forward; "
        "for f in /proc/sys/net/bridge/bridge-nf-call-iptables; do [ -e $f ] && echo 1 > $f; done; true"
    )
    subprocess.run(["nsenter", f"--net={NAMED / name}", "sh", "-c", script], check=True, capture_output=True)


def _ip(*arguments: str, stdin: list[str] | None = None) -> None:
    text = "\n".join(stdin) + "\n" if stdin else None
    done = subprocess.run(["ip", *arguments], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(
            f"`ip {' '.join(arguments)}` failed ({done.stderr.strip()}): this machine does not let its root make "
            "network namespaces and bridges; use a virtual machine, a privileged container, or --provider kind."
        )
