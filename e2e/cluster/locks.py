"""File locks between runs, which the kernel releases when their holder dies."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster import paths
from e2e.cluster.interface import ClusterError
from e2e.cluster.progress import print_line


@contextmanager
def held(path: Path, waiting_for: str, limit: float = 3600.0) -> Iterator[None]:
    """Hold the lock at `path` while the block runs.

    Prints once that it waits for `waiting_for`; raises ClusterError after `limit` seconds,
    or where the lock file cannot be written.
    """
    paths.require_writable(path.parent)
    with path.open("a") as file:
        deadline = time.monotonic() + limit
        told = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ClusterError(
                        f"Waited {limit:.0f} s for {waiting_for}: end that run, or try again later (lock: {path})."
                    ) from None
                if not told:
                    print_line(f"Waiting for {waiting_for} ...")
                    told = True
                time.sleep(0.1)
        yield
