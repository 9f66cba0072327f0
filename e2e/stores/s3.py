"""An object store on loopback that speaks S3: versitygw over a directory, from its Go module.

gofakes3, which is smaller, refuses uploads in chunks, which is how Amazon's own driver sends them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import binaries, machine
from e2e.cluster.control_plane import free_port
from e2e.cluster.machine import Machine
from e2e.stores.health import wait_healthy

ACCESS, SECRET, REGION = "access-of-tests", "secret-of-tests", "us-east-1"


@dataclass(frozen=True)
class S3:
    """A running store; `address` is its host and port, without TLS."""

    address: str

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment that configures Amazon's drivers for this store, as in a pod."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": f"http://{self.address}",
        }

    @property
    def options(self) -> Mapping[str, str]:
        """Return the same for pyarrow.fs.S3FileSystem."""
        return {
            "access_key": ACCESS,
            "secret_key": SECRET,
            "region": REGION,
            "scheme": "http",
            "endpoint_override": self.address,
        }


@contextmanager
def s3(*buckets: str) -> Iterator[S3]:
    """Start a store with empty buckets. It ends with this process, however that dies."""
    program = binaries.path("versitygw")
    with ExitStack() as stack:
        host = Machine("s3", Path(tempfile.mkdtemp(prefix="dtj-s3-", dir="/tmp")))
        stack.callback(machine.end, machine.start_plain(host))
        attributes = host.directory / "attributes"  # not every file system can hold them beside the files
        attributes.mkdir()
        for bucket in buckets:
            (host.directory / "buckets" / bucket).mkdir(parents=True)
        address = f"127.0.0.1:{free_port()}"
        host.start(
            "versitygw", program, "--quiet", "--port", address, "--health", "/health", "--region", REGION,
            "--access", ACCESS, "--secret", SECRET, "posix", "--sidecar", attributes, host.directory / "buckets",
        )  # fmt: skip
        wait_healthy(host, "versitygw", f"{address}/health", "The S3 store")
        yield S3(address)
