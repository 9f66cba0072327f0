"""Installs packages of the machine's distribution by apt."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from e2e.cluster.interface import ClusterError
from e2e.cluster.progress import phase, print_line


def install(packages: Sequence[str], who: str) -> None:
    """Install Debian packages for `who`; does nothing on a machine without apt.

    Raises ClusterError with apt's last line where it fails.
    """
    if not shutil.which("apt-get"):
        return
    print_line(f"Installing what {who} needs from this machine's packages: {' '.join(packages)}")
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    with phase("install packages"):
        for command in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", *packages]):
            done = subprocess.run(["apt-get", *command], env=quiet, capture_output=True, text=True, check=False)
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no output"])[-1]
                raise ClusterError(
                    f"apt-get could not install {' '.join(packages)} ({last}): install them yourself, then try again."
                )
