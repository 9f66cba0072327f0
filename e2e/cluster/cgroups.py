"""A control group for each node, on cgroup v1 and v2 hosts.

Two kubelets on one machine would remove each other's pods in a shared root.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from e2e.cluster.interface import ClusterError

ROOT = Path("/sys/fs/cgroup")
NEEDED = ("cpu", "cpuset", "memory", "pids")
REMOVE_LIMIT = 10.0


def name(cluster: str, node: str) -> str:
    """Return the name of the node's group below each root."""
    return f"dtj-{cluster}-{node}"


def unified() -> bool:
    """Tell whether the host has cgroup v2 alone."""
    return (ROOT / "cgroup.controllers").exists()


def make(group: str) -> None:
    """Create the node's group with every controller that the host has."""
    try:
        _make(group)
    except OSError as error:
        raise ClusterError(
            f"Control groups cannot be made here ({error}), and the kubelet needs its own: "
            "run on a virtual machine or in a privileged container, or use --provider kind."
        ) from None


def _make(group: str) -> None:
    if unified():
        _delegate()
        (ROOT / group).mkdir(exist_ok=True)
        return
    roots = _v1_roots()
    missing = [controller for controller in NEEDED if not (ROOT / controller).exists()]
    if missing:
        raise ClusterError(
            f"The cgroup controllers {', '.join(missing)} are not mounted under {ROOT}, and the kubelet needs them: "
            "mount them, or use a machine with cgroup v2."
        )
    for root in roots:
        (root / group).mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (root / setting).exists():
                (root / group / setting).write_text((root / setting).read_text())


def remove(group_prefix: str) -> None:
    """Remove every group whose name begins so, with all below; kills what still runs inside.

    On a hybrid host runc makes groups below `unified` as well.
    """
    for root in [ROOT] if unified() else [*_v1_roots(), ROOT / "unified"]:
        for group in root.glob(f"{group_prefix}*"):
            _remove_tree(group)


def _remove_tree(group: Path) -> None:
    deadline = time.monotonic() + REMOVE_LIMIT
    while group.exists():
        for directory in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
            with contextlib.suppress(OSError):
                directory.rmdir()
        with contextlib.suppress(OSError):
            group.rmdir()
        if group.exists():
            _kill(group)
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"The control group {group} cannot be removed: end its processes, then run down again."
                )
            time.sleep(0.05)


def _kill(group: Path) -> None:
    for file in group.rglob("cgroup.procs"):
        with contextlib.suppress(OSError):
            for pid in file.read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)


def _delegate() -> None:
    """Enable the needed controllers below the root.

    In a container with a cgroup namespace the root holds processes, which
    prevents that; they are moved into a leaf group first.
    """
    wanted = set(NEEDED) & set((ROOT / "cgroup.controllers").read_text().split())
    request = " ".join(f"+{controller}" for controller in sorted(wanted))
    control = ROOT / "cgroup.subtree_control"
    if wanted <= set(control.read_text().split()):
        return
    try:
        control.write_text(request)
    except OSError:
        leaf = ROOT / "init"
        leaf.mkdir(exist_ok=True)
        for pid in (ROOT / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (leaf / "cgroup.procs").write_text(pid)
        try:
            control.write_text(request)
        except OSError as error:
            raise ClusterError(
                f"The cgroup controllers {', '.join(sorted(wanted))} cannot be turned on in {control} "
                f"({error.strerror}): "
                "run on a virtual machine or in a privileged container with its own cgroup namespace."
            ) from None


def _v1_roots() -> list[Path]:
    """Return the mount of each v1 controller; `unified` of a hybrid host has none."""
    return [
        root for root in ROOT.iterdir() if root.is_dir() and root.name != "unified" and (root / "cgroup.procs").exists()
    ]
