"""Prometheus and promtool, from the machine's distribution: downloaded by apt, unpacked into the cache, not installed.

The distribution decides about the version.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from e2e.cluster import locks, paths
from e2e.cluster.interface import ClusterError
from e2e.cluster.progress import phase

PACKAGE = "prometheus"


def ensure() -> Path:
    """Return a directory with `prometheus` and `promtool`, downloaded now where it is missing.

    Raises ClusterError with apt's last line where it fails.
    """
    if (found := shutil.which(PACKAGE)) and Path(found).with_name("promtool").exists():
        return Path(found).parent
    home = paths.cache() / PACKAGE
    programs = home / "usr" / "bin"
    if not programs.exists():
        with locks.held(home.with_suffix(".lock"), "another run to download Prometheus"):
            if not programs.exists():
                paths.require_space({home: 0.2}, "Downloading Prometheus")
                with phase("download prometheus"):
                    _download(home)
    return programs


def _download(home: Path) -> None:
    fresh = home.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        _apt("download", fresh)
    except ClusterError:
        _apt("update", fresh)  # a machine without lists of packages, or with old ones
        _apt("download", fresh)
    (package,) = fresh.glob("*.deb")
    subprocess.run(["dpkg-deb", "--extract", str(package), str(fresh)], check=True, capture_output=True)
    package.unlink()
    fresh.rename(home)


def _apt(verb: str, directory: Path) -> None:
    if not shutil.which("apt-get"):
        raise ClusterError("Prometheus is not installed and this machine has no apt-get: install it yourself.")
    command = ["apt-get", "-q", verb, *([PACKAGE] if verb == "download" else [])]
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, cwd=directory, env=quiet, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise ClusterError(f"apt-get could not {verb} {PACKAGE} ({last}): install it yourself, then try again.")
