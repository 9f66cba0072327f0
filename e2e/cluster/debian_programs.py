"""Programs from packages of the machine's distribution: downloaded by apt and unpacked into the cache, not installed.

The distribution decides about their versions. The programs must need nothing but the C library, as those of Go do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from e2e.cluster import locks, paths
from e2e.cluster.interface import ClusterError
from e2e.cluster.progress import phase


def ensure(package: str, *programs: str) -> Path:
    """Return a directory with the programs of a package: where the machine has them, else downloaded into the cache.

    Raises ClusterError with apt's last line where it fails.
    """
    found = shutil.which(programs[0])
    if found and all(Path(found).with_name(program).exists() for program in programs):
        return Path(found).parent
    home = paths.cache() / "debian" / package
    if not home.exists():
        with locks.held(home.with_suffix(".lock"), f"another run to download {package}"):
            if not home.exists():
                paths.require_space({home: 0.2}, f"Downloading {package}")
                with phase(f"download {package}"):
                    _download(package, home)
    return home / "usr" / "bin"


def _download(package: str, home: Path) -> None:
    fresh = home.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        _apt(package, fresh, "download", package)
    except ClusterError:
        _apt(package, fresh, "update")  # a machine without lists of packages, or with old ones
        _apt(package, fresh, "download", package)
    (archive,) = fresh.glob("*.deb")
    subprocess.run(["dpkg-deb", "--extract", str(archive), str(fresh)], check=True, capture_output=True)
    archive.unlink()
    fresh.rename(home)


def _apt(package: str, directory: Path, *arguments: str) -> None:
    if not shutil.which("apt-get"):
        raise ClusterError(f"{package} is not installed and this machine has no apt-get: install it yourself.")
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "-q", *arguments]
    done = subprocess.run(command, cwd=directory, env=quiet, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise ClusterError(f"apt-get could not {arguments[0]} {package} ({last}): install it yourself, then try again.")
