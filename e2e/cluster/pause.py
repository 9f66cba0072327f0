"""The pod sandbox's image: one static program that waits, in an archive made here.

The program is the one that holds a pod's namespaces. It reaps what is reparented
to it when a pod shares its process namespace.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import subprocess
import tarfile
from pathlib import Path

from e2e.cluster import binaries, locks, paths
from e2e.cluster.interface import ClusterError
from e2e.cluster.toolchain import toolchain

SOURCE = paths.SOURCES / "binaries" / "pause"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def archive(ref: str) -> Path:
    """A docker archive with the pause image tagged `ref`, from the cache or made now."""
    go = toolchain(binaries.minimum_go())
    key = hashlib.sha256((SOURCE / "main.go").read_bytes() + go.version.encode() + ref.encode()).hexdigest()[:16]
    target = paths.cache() / "pause" / f"{key}.tar"
    if target.exists():
        return target
    with locks.held(target.with_suffix(".lock"), "another run to build the pause image"):
        program = target.with_suffix(".bin")
        command = [str(go.command), "build", "-ldflags", "-s -w", "-o", str(program), "."]
        done = subprocess.run(command, cwd=SOURCE, env=go.environment(), capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"Go could not build the pause program in {SOURCE}: {done.stderr.strip()}")
        unfinished = target.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(pack(program.read_bytes(), ref, ARCHITECTURES.get(platform.machine(), "amd64")))
        unfinished.rename(target)
        program.unlink()
    return target


def pack(program: bytes, ref: str, architecture: str) -> bytes:
    """A docker archive whose image holds `/pause` alone and runs it as nobody."""
    layer = _tar({"pause": program}, mode=0o755)
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    content = json.dumps(config).encode()
    name = f"{hashlib.sha256(content).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": [ref], "Layers": ["layer.tar"]}]
    return _tar({name: content, "layer.tar": layer, "manifest.json": json.dumps(manifest).encode()}, mode=0o644)


def _tar(files: dict[str, bytes], mode: int) -> bytes:
    """Equal input gives equal bytes: no times, no owners."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()

