"""The project's two images, built once for each state of their sources.

`python -m e2e.cluster.images build` builds both, `... path` prints `name ref archive` of each (building what is
missing). An image is identified by a hash of all that it is made from: Dockerfile, requirements, sources, and its base.
Its archive, in the format of `docker save`, is `<cache>/images/<name>-<hash>.tar`; while that exists, nothing is built.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from e2e.cluster import image_builders, locks, paths
from e2e.cluster.image_builders import Builder
from e2e.cluster.interface import ClusterError
from e2e.cluster.progress import phase, print_line

SPACE_GIB = 8.0
"""The most that a first build needs: TensorFlow's wheels, its layer, the archive, and a builder's copy of it."""
KEPT = 2
"""Archives of one image that are kept: yesterday's sources need no new build, and the cache does not grow."""


@dataclass(frozen=True, slots=True)
class Source:
    """The sources of one image, relative to the checkout."""

    name: str
    dockerfile: str
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Image:
    """A built image: `ref` is the name it bears on the nodes, `digest` that of its configuration (the image id)."""

    ref: str
    archive: Path
    digest: str


@dataclass(frozen=True, slots=True)
class Images:
    """The images that a cluster runs, by the names that its nodes know."""

    operator: str
    trainer: str
    archives: Mapping[str, Path] = field(default_factory=dict)
    """By name, the archives to be loaded into the nodes first."""


SOURCES = (
    Source("dtj-operator", "operator/Dockerfile", ("requirements/operator.txt", "operator/dtj_operator")),
    Source(
        "dtj-trainer",
        "trainer-image/Dockerfile",
        ("requirements/trainer.txt", "client/dtj", "trainer-image/dtj_trainer", "examples"),
    ),
)


def files_of(source: Source, checkout: Path) -> tuple[Path, ...]:
    """Return every file that goes into the image, in order, without compiled bytecode."""
    found: list[Path] = [checkout / source.dockerfile, checkout / ".dockerignore"]
    for name in source.inputs:
        path = checkout / name
        below = path.rglob("*") if path.is_dir() else (path,)
        found += sorted(file for file in below if file.is_file() and "__pycache__" not in file.parts)
    return tuple(found)


def content_hash(source: Source, checkout: Path, base: str) -> str:
    """Return twelve hexadecimal digits that change with any file of the image, its mode included, and with its base."""
    total = hashlib.sha256(base.encode())
    for file in files_of(source, checkout):
        executable = bool(file.stat().st_mode & 0o100)
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        total.update(f"\n{file.relative_to(checkout)} {executable} {content}".encode())
    return total.hexdigest()[:12]


def built() -> Images:
    """Return both images of this checkout, built where they are missing."""
    made = build_images()
    archives = {image.ref: image.archive for image in made.values()}
    return Images(made["dtj-operator"].ref, made["dtj-trainer"].ref, archives)


def named(operator: str | None, trainer: str | None) -> Images:
    """Return images that the nodes pull from a registry.

    Raises ClusterError, one sentence, where one of them has no name or no tag.
    """
    for option, name in (("--operator-image", operator), ("--trainer-image", trainer)):
        if not name:
            variable = f"DTJ_{option[2:].replace('-', '_').upper()}"
            raise ClusterError(
                f"{option} is missing: nodes of an existing cluster pull images from a registry; push both "
                f"(docs/getting-started.md) and name this one with {option} REPOSITORY:TAG or {variable}."
            )
        if ":" not in name.rpartition("/")[2]:
            raise ClusterError(f"{option} {name} has no tag: write {name}:TAG.")
    return Images(str(operator), str(trainer))


def build_images(
    sources: Iterable[Source] = SOURCES, *, checkout: Path = paths.CHECKOUT, builder: Builder | None = None
) -> Mapping[str, Image]:
    """Return both images by name, built where their archive is missing.

    Raises ClusterError, one sentence, where the machine cannot build them; then no half-written archive is left.
    """
    builder = builder or image_builders.choose()
    home = paths.cache() / "images"
    images: dict[str, Image] = {}
    for source in sources:
        version = content_hash(source, checkout, builder.base_key)
        ref = f"localhost/{source.name}:{version}"
        archive = home / f"{source.name}-{version}.tar"
        with locks.held(home / f"{source.name}.lock", f"another build of {source.name}"):
            if not archive.exists():
                _build(builder, source, checkout, ref, archive)
            archive.touch()
            _forget_old(home, source.name, keep=archive)
        images[source.name] = Image(ref, archive, _digest(archive))
    return images


def _build(builder: Builder, source: Source, checkout: Path, ref: str, archive: Path) -> None:
    paths.require_space({paths.cache(): SPACE_GIB}, f"Building the image {source.name}")
    unfinished = archive.with_suffix(".unfinished")
    try:
        builder.build(checkout, source.dockerfile, ref)
        with phase(f"Image {source.name}: archive"):
            unfinished.unlink(missing_ok=True)
            builder.save(ref, unfinished)
            unfinished.rename(archive)
    finally:
        unfinished.unlink(missing_ok=True)


def _forget_old(home: Path, name: str, keep: Path) -> None:
    archives = sorted(home.glob(f"{name}-*.tar"), key=lambda file: file.stat().st_mtime, reverse=True)
    for old in [file for file in archives if file != keep][KEPT - 1 :]:
        old.unlink(missing_ok=True)


def _digest(archive: Path) -> str:
    """Return the image's id from its archive; an unreadable archive is removed, so that a rerun builds it."""
    try:
        with tarfile.open(archive) as tar:
            manifest = tar.extractfile("manifest.json")
            config = str(json.load(manifest)[0]["Config"]) if manifest else ""
    except (tarfile.TarError, KeyError, ValueError) as problem:
        archive.unlink(missing_ok=True)
        raise ClusterError(
            f"The image archive {archive} was damaged and has been removed: run the same command again."
        ) from problem
    return "sha256:" + config.removeprefix("blobs/sha256/").removesuffix(".json")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster.images", description=__doc__.split("\n", 1)[0])
    parser.add_argument("verb", choices=("build", "path"))
    verb = parser.parse_args(arguments).verb
    try:
        images = build_images()
    except ClusterError as problem:
        print_line(str(problem))
        return 1
    except KeyboardInterrupt:
        return 130
    for name, image in images.items():
        if verb == "path":
            print(name, image.ref, image.archive)
        else:
            print_line(f"{image.ref}  {image.archive.stat().st_size / 1e6:.0f} MB  {image.archive}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
