"""Writes images in docker's archive format from layers that are tar files, without a builder."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.cluster.scratch_image import configuration, own_architecture


@dataclass(frozen=True)
class LayeredImage:
    """An image: its name, its layers from the lowest, and its configuration (Entrypoint, Env, ...)."""

    ref: str
    layers: tuple[Path, ...]
    config: Mapping[str, Any] = field(default_factory=dict)


def write(target: Path, images: Iterable[LayeredImage]) -> None:
    """Write an archive with all `images`; a layer that several have is in it once."""
    digests: dict[Path, str] = {}
    manifest = []
    with tarfile.open(target, "w") as archive:
        for image in images:
            for layer in image.layers:
                if layer not in digests:
                    digests[layer] = _digest(layer)
                    archive.add(layer, f"{digests[layer]}.tar")
            own = [digests[layer] for layer in image.layers]
            name, content = configuration(image.config, own, own_architecture())
            _add(archive, name, content)
            manifest.append({"Config": name, "RepoTags": [image.ref], "Layers": [f"{digest}.tar" for digest in own]})
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def pack_directory(root: Path, target: Path) -> Path:
    """Pack the content of a directory as a layer, with owners and modes."""
    subprocess.run(["tar", "--numeric-owner", "-C", str(root), "-cf", str(target), "."], check=True)
    return target


def pack_files(files: Mapping[str, Path], target: Path) -> Path:
    """Pack programs as a layer, each under its path in the image."""
    with tarfile.open(target, "w") as tar:
        for name, file in files.items():
            entry = tar.gettarinfo(str(file), name.lstrip("/"))
            entry.mode, entry.uid, entry.gid, entry.uname, entry.gname = 0o755, 0, 0, "root", "root"
            with file.open("rb") as content:
                tar.addfile(entry, content)
    return target


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
