"""Images of one static program and nothing else, packed without a container tool.

`pause` holds a pod's namespaces; `probe` answers requests of the cluster's own
tests from inside a pod.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from e2e.cluster import binaries, locks, paths
from e2e.cluster.interface import ClusterError
from e2e.cluster.toolchain import toolchain

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def own_architecture() -> str:
    """Return this machine's, in the words of images."""
    return ARCHITECTURES.get(platform.machine(), "amd64")


def archive(program: str, ref: str) -> Path:
    """Return a docker archive of the program below binaries/, tagged `ref`; from the cache, or built now."""
    built = executable(program)
    target = built.with_name(f"{built.name}-{hashlib.sha256(ref.encode()).hexdigest()[:8]}.tar")
    if not target.exists():
        unfinished = target.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(pack(program, built.read_bytes(), ref, own_architecture()))
        unfinished.rename(target)
    return target


def executable(program: str) -> Path:
    """Return the static program below binaries/; from the cache, or built now."""
    source = paths.SOURCES / "binaries" / program
    go = toolchain(binaries.minimum_go())
    digest = hashlib.sha256((source / "main.go").read_bytes() + go.version.encode()).hexdigest()[:16]
    target = paths.cache() / "scratch" / f"{program}-{digest}"
    if target.exists():
        return target
    with locks.held(target.with_suffix(".lock"), f"another run to build {program}"):
        unfinished = target.with_suffix(f".{os.getpid()}")
        command = [str(go.command), "build", "-ldflags", "-s -w", "-o", str(unfinished), "."]
        done = subprocess.run(command, cwd=source, env=go.environment(), capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"Go could not build {source}: {done.stderr.strip()}")
        unfinished.rename(target)
    return target


def pack(name: str, program: bytes, ref: str, architecture: str) -> bytes:
    """Return a docker archive whose image holds the program `/name` alone and runs it as nobody."""
    layer = _tar({name: program}, mode=0o755)
    config = {"Entrypoint": [f"/{name}"], "User": "65535:65535"}
    settings, content = configuration(config, [hashlib.sha256(layer).hexdigest()], architecture)
    manifest = [{"Config": settings, "RepoTags": [ref], "Layers": ["layer.tar"]}]
    return _tar({settings: content, "layer.tar": layer, "manifest.json": json.dumps(manifest).encode()}, mode=0o644)


def configuration(config: Mapping[str, Any], layers: Sequence[str], architecture: str) -> tuple[str, bytes]:
    """Return name and content of an image's configuration in an archive; `layers` are digests, from the lowest."""
    found = {
        "architecture": architecture,
        "os": "linux",
        "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in layers]},
    }
    content = json.dumps(found).encode()
    return f"{hashlib.sha256(content).hexdigest()}.json", content


def _tar(files: dict[str, bytes], mode: int) -> bytes:
    """Pack a tar file without times and owners, so that equal input gives equal bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
