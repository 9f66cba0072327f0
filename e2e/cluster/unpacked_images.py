"""A cache of unpacked images: a containerd root, filled once and hard-linked into each node.

Importing an image of a gigabyte takes some ten seconds a node; linking takes
one. Blobs and layers are never written to after they are created, so links to
them are safe; the databases beside them are copied. The cache key is made from
the images.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from e2e.cluster import images_on_nodes, locks, paths
from e2e.cluster.interface import ClusterError
from e2e.cluster.node import NodeHost

KEPT = 3
"""Entries that stay in the cache; older ones are deleted when a new one is saved."""
UNPACKED = "umask 022"
"""Part of the key: earlier entries were made with the caller's umask, which the snapshotter `native` copies to pods."""


def cache_path(images: Mapping[str, Path], snapshotter: str) -> Path:
    """Return the cache entry of these images, ref to archive."""
    parts = [
        UNPACKED,
        snapshotter,
        *(f"{ref}={images_on_nodes.identity(archive)}" for ref, archive in sorted(images.items())),
    ]
    return paths.cache() / "seeds" / hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def save(made: NodeHost, place: Path) -> None:
    """Save a node's containerd root; its containerd must be stopped."""
    with _locked():
        if place.exists():
            return
        unfinished = place.with_suffix(".new")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        _link(made.images, unfinished)
        shutil.copytree(made.directory / "loaded", unfinished / "loaded")
        unfinished.rename(place)
        by_age = sorted(place.parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in by_age[KEPT:]:
            shutil.rmtree(old, ignore_errors=True)


def restore(place: Path, host: NodeHost) -> None:
    """Link the cached images into a node that has not booted yet."""
    shutil.rmtree(host.images, ignore_errors=True)
    with _locked():
        if not place.exists():
            raise ClusterError(f"The unpacked images in {place} were removed at this moment: start the cluster again.")
        _link(place, host.images)
        os.utime(place)
    shutil.rmtree(host.directory / "loaded", ignore_errors=True)
    (host.images / "loaded").rename(host.directory / "loaded")


def _locked() -> AbstractContextManager[None]:
    return locks.held(paths.cache() / "seeds.lock", "another run to copy its images")


def _link(source: Path, target: Path) -> None:
    """Copy a tree by hard links, or by content on another file system; databases always by content."""
    linked = subprocess.run(["cp", "-a", "--link", source, target], capture_output=True, text=True, check=False)
    if linked.returncode:
        shutil.rmtree(target, ignore_errors=True)
        copied = subprocess.run(
            ["cp", "-a", "--reflink=auto", source, target], capture_output=True, text=True, check=False
        )
        if copied.returncode:
            shutil.rmtree(target, ignore_errors=True)
            raise ClusterError(f"Images cannot be copied from {source} to {target}: {copied.stderr.strip()}")
        return
    for database in target.glob("*/*.db"):
        database.unlink()
        shutil.copy2(source / database.relative_to(target), database)
