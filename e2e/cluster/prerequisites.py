"""What the embedded cluster needs from its machine; Debian packages are installed automatically."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import packages
from e2e.cluster.interface import ClusterError

PLUGIN_DIRECTORIES = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
PLUGINS = ("bridge", "host-local", "loopback", "portmap")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

DEBIAN_PACKAGE = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "setsid": "util-linux",
    "mount": "mount",
    "CNI plugins": "containernetworking-plugins",
}


@dataclass(frozen=True)
class Host:
    """What this machine offers."""

    plugins: Path
    may_lower_oom_score: bool


def require() -> Host:
    """Check everything, and install what is missing by apt.

    Raises ClusterError with one sentence for each thing that is still missing.
    """
    if problem := unsupported_reason():
        raise ClusterError(problem)
    if SYSTEM_PATH not in os.environ.get("PATH", ""):
        os.environ["PATH"] = f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"
    if absent := missing():
        packages.install(sorted({DEBIAN_PACKAGE[tool] for tool in absent}), "the cluster")
        if absent := missing():
            raise ClusterError("\n".join(sentence(tool) for tool in absent))
    return Host(_plugins() or PLUGIN_DIRECTORIES[0], _may_lower_oom_score())


def unsupported_reason() -> str:
    """Return why this machine cannot run an embedded cluster; empty where it can."""
    if sys.platform != "linux":
        return "The embedded cluster needs Linux: use --provider kind, or --provider existing with a kubeconfig."
    if os.geteuid():
        return (
            "The embedded cluster needs root, because it makes network namespaces and runs containerd: "
            "run it with sudo, or use --provider kind."
        )
    return ""


def missing() -> list[str]:
    """Return the names of the missing tools."""
    absent = [tool for tool in DEBIAN_PACKAGE if tool != "CNI plugins" and not shutil.which(tool)]
    return absent if _plugins() else [*absent, "CNI plugins"]


def sentence(tool: str) -> str:
    """Return what to do about a missing tool."""
    where = f" ({', '.join(PLUGINS)} in {PLUGIN_DIRECTORIES[0]})" if tool == "CNI plugins" else ""
    return f"{tool}{where} is missing: install the package {DEBIAN_PACKAGE[tool]} (its name in Debian), then try again."


def _plugins() -> Path | None:
    for directory in PLUGIN_DIRECTORIES:
        if all((directory / plugin).exists() for plugin in PLUGINS):
            return directory
    return None


def _may_lower_oom_score() -> bool:
    """Tell whether a sandbox's oom_score_adj can be lowered, which takes CAP_SYS_RESOURCE (bit 24)."""
    status = Path("/proc/self/status").read_text()
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff"))
    return bool(int(effective, 16) >> 24 & 1)
