"""Directories: caches that outlive a cluster, and the state of running ones."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from e2e.cluster.interface import ClusterError

SOURCES = Path(__file__).parent
CHECKOUT = SOURCES.parent.parent


def cache() -> Path:
    """Return `$DTJ_CACHE`, else `dtj` in the user's cache directory. Safe to delete at any time."""
    if chosen := os.environ.get("DTJ_CACHE"):
        return Path(chosen).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dtj"


def state_root() -> Path:
    """Return `$DTJ_STATE`, else /var/tmp/dtj: one directory for each running cluster."""
    return Path(os.environ.get("DTJ_STATE") or "/var/tmp/dtj").absolute()


def existing_parent(path: Path) -> Path:
    """Return the nearest ancestor of `path` that exists, `path` included."""
    while not path.exists():
        path = path.parent
    return path


def require_writable(directory: Path) -> None:
    """Create `directory` where it is missing; ClusterError where this user cannot write in it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise ClusterError(
            f"{directory} cannot be written ({error.strerror}): make it writable, or point DTJ_CACHE and DTJ_STATE at "
            "directories that are."
        ) from None


def require_space(needs: dict[Path, float], purpose: str) -> None:
    """Raise ClusterError where the disk has too little space for `purpose`.

    `needs` maps each path to the GiB that will be written below it; paths on
    one file system are added up.
    """
    by_device: dict[int, list[tuple[Path, float]]] = {}
    for path, gib in needs.items():
        place = existing_parent(path)
        by_device.setdefault(place.stat().st_dev, []).append((place, gib))
    for places in by_device.values():
        needed = sum(gib for _, gib in places)
        place = places[0][0]
        free = shutil.disk_usage(place).free / 2**30
        if free < needed:
            raise ClusterError(
                f"{purpose} needs {needed:.1f} GiB under {place} but {free:.1f} GiB are free: "
                "free some space, or point DTJ_CACHE and DTJ_STATE at a larger disk."
            )
