"""An object store on loopback that speaks Google Cloud Storage's protocol: fake-gcs-server, from its Go module."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import binaries, machine
from e2e.cluster.control_plane import free_port
from e2e.cluster.machine import Machine
from e2e.stores.health import wait_healthy


@dataclass(frozen=True)
class ObjectStore:
    """A running store; `address` is its host and port, without TLS."""

    address: str


@contextmanager
def object_store(*buckets: str) -> Iterator[ObjectStore]:
    """Start a store with empty buckets. It ends with this process, however that dies."""
    program = binaries.path("fake-gcs-server")
    with ExitStack() as stack:
        host = Machine("gcs", Path(tempfile.mkdtemp(prefix="dtj-gcs-", dir="/tmp")))
        stack.callback(machine.end, machine.start_plain(host))
        for bucket in buckets:
            (host.directory / "buckets" / bucket).mkdir(parents=True)
        port = free_port()
        address = f"127.0.0.1:{port}"
        host.start(
            "fake-gcs-server", program, "-scheme=http", "-host=127.0.0.1", f"-port={port}", "-backend=filesystem",
            f"-filesystem-root={host.directory / 'buckets'}", f"-public-host={address}", "-log-level=warn",
        )  # fmt: skip
        wait_healthy(host, "fake-gcs-server", f"{address}/_internal/healthcheck", "The object store")
        yield ObjectStore(address)
