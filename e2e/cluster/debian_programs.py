"""Programs from packages of the machine's distribution: downloaded by apt and unpacked into the cache, not installed.

The distribution decides about their versions.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster import locks, paths
from e2e.cluster.interface import ClusterError
from e2e.cluster.progress import phase


def ensure(package: str, *programs: str) -> Path:
    """Return a directory with the programs of a package: where the machine has them, else downloaded into the cache.

    The programs must need nothing but the C library, as those of Go do. Raises ClusterError with apt's last line where
    it fails.
    """
    found = shutil.which(programs[0])
    if found and all(Path(found).with_name(program).exists() for program in programs):
        return Path(found).parent
    return unpacked(paths.cache() / "debian" / package, package) / "usr" / "bin"


def unpacked(home: Path, *packages: str, gib: float = 0.2) -> Path:
    """Return `home` with the content of the packages, downloaded now where it is missing; `gib` is what that needs.

    Raises ClusterError with apt's last line where it fails.
    """
    if not home.exists():
        with locks.held(home.with_suffix(".lock"), f"another run to download {packages[0]}"):
            if not home.exists():
                paths.require_space({home: gib}, f"Downloading {packages[0]}")
                with phase(f"download {' '.join(packages)}"):
                    _download(packages, home)
    return home


def _download(packages: Sequence[str], home: Path) -> None:
    fresh = home.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        _apt(packages, fresh, "download", *packages)
    except ClusterError:
        _apt(packages, fresh, "update")  # a machine without lists of packages, or with old ones
        _apt(packages, fresh, "download", *packages)
    for archive in fresh.glob("*.deb"):
        subprocess.run(["dpkg-deb", "--extract", str(archive), str(fresh)], check=True, capture_output=True)
        archive.unlink()
    fresh.rename(home)


def _apt(packages: Sequence[str], directory: Path, *arguments: str) -> None:
    package = packages[0]
    if not shutil.which("apt-get"):
        raise ClusterError(f"{package} is not installed and this machine has no apt-get: install it yourself.")
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "-q", *arguments]
    done = subprocess.run(command, cwd=directory, env=quiet, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise ClusterError(f"apt-get could not {arguments[0]} {package} ({last}): install it yourself, then try again.")
