"""The record of an embedded cluster, written before anything of it is created."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e.cluster import paths
from e2e.cluster.interface import ClusterError

LOCKS = Path("/run/lock")
NAME = re.compile(r"[a-z][a-z0-9]{0,15}")


@dataclass(frozen=True)
class Record:
    """Enough to find, use and remove the cluster."""

    name: str
    nodes: int
    port: int

    @property
    def directory(self) -> Path:
        """Return the directory of all state of the cluster."""
        return directory(self.name)

    def write(self) -> None:
        """Write the record atomically."""
        self.directory.mkdir(parents=True, exist_ok=True)
        unfinished = self.directory / "cluster.json.new"
        unfinished.write_text(json.dumps(asdict(self)))
        unfinished.rename(self.directory / "cluster.json")


def directory(name: str) -> Path:
    """Return the state directory of the cluster of that name."""
    if not NAME.fullmatch(name):
        raise ClusterError(
            f"{name!r} cannot name a cluster: use up to 16 lower-case letters and digits, a letter first."
        )
    return paths.state_root() / name


def lock(name: str) -> Path:
    """Return the lock that `up` and `down` of this cluster hold. Names are machine-wide, like those of namespaces."""
    directory(name)
    return LOCKS / f"dtj-{name}.lock"


def read(name: str) -> Record | None:
    """Return the record of a cluster; None where there is none."""
    file = directory(name) / "cluster.json"
    return Record(**json.loads(file.read_text())) if file.exists() else None


def recorded_clusters() -> list[str]:
    """Return the names of all clusters with state on this machine."""
    root = paths.state_root()
    return sorted(entry.name for entry in root.iterdir() if NAME.fullmatch(entry.name)) if root.is_dir() else []


def require_own_root() -> None:
    """Raise ClusterError where another user owns the state's root: keys are written below it."""
    root = paths.state_root()
    paths.require_writable(root)
    if root.is_symlink() or root.stat().st_uid != os.geteuid():
        raise ClusterError(f"{root} belongs to another user: remove it, or point DTJ_STATE at a directory of your own.")
