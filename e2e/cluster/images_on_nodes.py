"""Imports images from docker and OCI archives into a node's containerd."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tarfile
from pathlib import Path

from e2e.cluster.interface import ClusterError
from e2e.cluster.node import NodeHost

UNPACKED = re.compile(r"^unpacking (\S+) \(sha256:", re.MULTILINE)
MANIFESTS = ("manifest.json", "index.json")


def identity(archive: Path) -> str:
    """Return a short digest of the archive's manifest, which names its content by digest."""
    try:
        with tarfile.open(archive) as tar:
            for entry in tar:
                if entry.name.removeprefix("./") in MANIFESTS:
                    file = tar.extractfile(entry)
                    assert file is not None
                    return hashlib.sha256(file.read()).hexdigest()[:16]
    except (OSError, tarfile.TarError) as error:
        raise ClusterError(f"{archive} cannot be read as an image archive ({error}): build the image again.") from None
    raise ClusterError(f"{archive} holds neither manifest.json nor index.json: save it as a docker or OCI archive.")


def load(host: NodeHost, archive: Path, ref: str) -> bool:
    """Import the archive as `ref`; returns False where the node has it already."""
    mark = host.directory / "loaded" / f"{re.sub(r'[^a-zA-Z0-9.-]', '_', ref)}@{identity(archive)}"
    if mark.exists():
        return False
    output = ctr(host, "images", "import", "--snapshotter", host.snapshotter, str(archive))
    names = UNPACKED.findall(output)
    if not names:
        raise ClusterError(f"{archive} gave containerd on {host.name} no image: {output.strip() or 'no output'}")
    if ref not in names:
        ctr(host, "images", "tag", "--force", names[0], ref)
    mark.parent.mkdir(exist_ok=True)
    mark.touch()
    return True


def ctr(host: NodeHost, *arguments: str) -> str:
    """Run containerd's own client against a node; returns its output."""
    command = ["ctr", "--address", str(host.socket), "--namespace", "k8s.io", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"`ctr {' '.join(arguments)}` failed on {host.name}: {done.stderr.strip()}")
    return done.stdout
