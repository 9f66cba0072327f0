"""Makes a Debian 12 with Python 3.11 and nothing else by debootstrap: the images' base where there is no registry."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.interface import ClusterError
from e2e.cluster.progress import phase

SUITE = "bookworm"
PACKAGES = ("ca-certificates", "python3", "python3-venv")
NOT_NEEDED = (
    "usr/share/doc",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/man",
    "var/cache/apt",
    "var/lib/apt/lists",
    "var/log",
)
"""Emptied after the installation; apt and dpkg go on working."""
SOURCES = Path("/etc/apt")


@dataclass(frozen=True, slots=True)
class Base:
    """`mirror` is the one that this machine's apt uses; None leaves it to debootstrap's default."""

    mirror: str | None

    @property
    def key(self) -> str:
        """Return a key that changes with the content of the base, not with its mirror."""
        made_from = repr((SUITE, PACKAGES, NOT_NEEDED))
        return f"debian-{SUITE}-{hashlib.sha256(made_from.encode()).hexdigest()[:12]}"

    @property
    def ref(self) -> str:
        return f"localhost/dtj-base:{self.key}"

    def make(self, root: Path) -> None:
        """Fill the directory `root` (about 60 s); ClusterError with debootstrap's last lines where it fails."""
        debootstrap(root, PACKAGES, self.mirror)


def wanted() -> Base:
    return Base(mirror=apt_mirror(SOURCES))


def debootstrap(root: Path, packages: Sequence[str], mirror: str | None) -> None:
    """Install a minimal Debian with `packages` in `root`; ClusterError with debootstrap's last lines where it fails."""
    install_tools("debootstrap")
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", SUITE, str(root)]
    done = subprocess.run(
        [*command, *([mirror] if mirror else [])],
        capture_output=True, text=True, check=False, env=os.environ | apt_proxies(),
    )  # fmt: skip
    if done.returncode:
        words = (done.stdout + done.stderr).strip().splitlines()[-4:]
        raise ClusterError(
            f"debootstrap could not make the base image: {' / '.join(words)}. "
            "Check the network and the disk, then run the same command again."
        )
    for name in NOT_NEEDED:
        for entry in (root / name).iterdir():
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def apt_mirror(directory: Path) -> str | None:
    """Return the first Debian archive of `bookworm` among apt's sources, in either of apt's formats."""
    listed = sorted((directory / "sources.list.d").glob("*.list"))
    for file in [directory / "sources.list", *listed]:
        if file.is_file() and (
            found := re.search(rf"^deb\s+(?:\[[^]]*]\s*)?(\S+)\s+{SUITE}\s", file.read_text(), re.MULTILINE)
        ):
            return found[1]
    for file in sorted((directory / "sources.list.d").glob("*.sources")):
        for stanza in re.split(r"\n\s*\n", file.read_text()):
            fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", stanza, re.MULTILINE))
            if SUITE in fields.get("Suites", "").split() and fields.get("Enabled", "yes") != "no":
                return str(fields["URIs"].split()[0])
    return None


def apt_proxies() -> dict[str, str]:
    """Return apt's proxy as the variables that debootstrap's downloader reads; the caller's own variables win."""
    given: dict[str, str] = {}
    for scheme in ("http", "https"):
        command = ["apt-config", "shell", "proxy", f"Acquire::{scheme}::Proxy"]
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        found = re.fullmatch(r"proxy='([^']+)'\s*", said)
        if found and not os.environ.get(f"{scheme}_proxy"):
            given[f"{scheme}_proxy"] = found[1]
    return given


def install_tools(*names: str) -> None:
    """Install by apt those of `names`, each a package and its command, that are missing; ClusterError on failure."""
    missing = [name for name in names if shutil.which(name) is None]
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise ClusterError(f"{' and '.join(missing)} missing and this machine has no apt-get: install them yourself.")
    packages = [*missing, *(["debian-archive-keyring"] if "debootstrap" in missing else [])]
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    with phase(f"Installing {' '.join(packages)}"):
        subprocess.run(["apt-get", "update"], capture_output=True, check=False, env=quiet)
        done = subprocess.run(install, capture_output=True, text=True, check=False, env=quiet)
    if done.returncode:
        words = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ClusterError(
            f"`apt-get install {' '.join(packages)}` failed ({words}): install them yourself, then run this again."
        )
