"""Builds images: with docker where it has BuildKit and the base image, else with buildah on a Debian of debootstrap.

Both build the same Dockerfiles. buildah keeps its storage in `<cache>/buildah`, apart from the machine's own, and runs
the steps in a chroot with the machine's network, so it needs root but no daemon, registry or container network. A
pip.conf and a CA bundle of this machine, where they exist, reach the steps as build secrets, which no layer keeps.
"""

from __future__ import annotations

import ast
import configparser
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from e2e.cluster import debian_base, paths
from e2e.cluster.interface import ClusterError
from e2e.cluster.progress import phase

PULLED_BASE = "python:3.11-slim-bookworm"
"""The Dockerfiles' own default, which docker pulls."""
CA_IN_BUILD = "/run/secrets/ca.crt"
PIP_KEYS = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "no-index")
"""The keys of this machine's pip configuration that a build uses; its paths do not exist in the build."""
CA_VARIABLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
TRUST_STORE = Path("/etc/ssl/certs/ca-certificates.crt")
"""Debian's trust store, with what the machine's administrator has added."""
PULL_SECONDS = 300
DISK_FULL = "no space left on device"
WITH_BUILDKIT = {"DOCKER_BUILDKIT": "1"}
"""Its default since docker 23, which needs the plugin buildx for it; Debian's docker 20.10 has it built in."""


class Builder(Protocol):
    """A tool that builds a Dockerfile of the checkout as an image, and saves it in docker's archive format."""

    @property
    def base_key(self) -> str:
        """Return a key that changes with the base image."""

    def build(self, checkout: Path, dockerfile: str, ref: str) -> None: ...

    def save(self, ref: str, archive: Path) -> None: ...


def choose() -> Builder:
    """Return docker if it can build these images, else buildah, installed first where it is missing.

    Raises ClusterError where neither can be used.
    """
    if _docker_builds():
        return Docker()
    if os.geteuid() != 0:
        raise ClusterError(
            "Building images needs docker with a running daemon, buildx and its base image, or root for buildah: start "
            "docker, or run this as root."
        )
    debian_base.install_tools("buildah")
    storage = paths.cache() / "buildah"
    return Buildah(storage, _storage_driver(storage), debian_base.wanted())


@dataclass(frozen=True, slots=True)
class Docker:
    """The docker command, with BuildKit."""

    base_key: str = PULLED_BASE

    def build(self, checkout: Path, dockerfile: str, ref: str) -> None:
        with phase(f"Image {_name(ref)}: docker build"), secrets() as given:
            command = [
                "docker",
                "build",
                "--quiet",
                *given,
                "--file",
                str(checkout / dockerfile),
                "--tag",
                ref,
                str(checkout),
            ]
            run(command, os.environ | WITH_BUILDKIT)

    def save(self, ref: str, archive: Path) -> None:
        run(["docker", "save", "--output", str(archive), ref])


@dataclass(frozen=True, slots=True)
class Buildah:
    """buildah with a storage of its own."""

    storage: Path
    driver: str
    base: debian_base.Base

    @property
    def base_key(self) -> str:
        return self.base.key

    def build(self, checkout: Path, dockerfile: str, ref: str) -> None:
        self._ensure_base()
        with phase(f"Image {_name(ref)}: buildah"), secrets() as given:
            self._run(
                "bud", "--quiet", "--layers", "--isolation", "chroot", "--network", "host", *given,
                "--build-arg", f"BASE={self.base.ref}", "--pull-never",
                "--file", str(checkout / dockerfile), "--tag", ref, str(checkout),
            )  # fmt: skip

    def save(self, ref: str, archive: Path) -> None:
        self._run("push", "--quiet", "--disable-compression", ref, f"docker-archive:{archive}:{ref}")

    def _ensure_base(self) -> None:
        if self._succeeds("inspect", "--type", "image", self.base.ref):
            return
        debian_base.install_tools("debootstrap")
        with (
            phase(f"Base image: Debian {debian_base.SUITE} with Python 3.11"),
            tempfile.TemporaryDirectory(dir=paths.cache()) as scratch,
        ):
            root = Path(scratch) / "root"
            self.base.make(root)
            container = self._run("from", "scratch").strip()
            try:
                self._run("add", "--quiet", container, str(root), "/")
                self._run("commit", "--quiet", container, self.base.ref)
            finally:
                self._run("rm", container)

    def _run(self, *arguments: str) -> str:
        return run(self._command(*arguments))

    def _succeeds(self, *arguments: str) -> bool:
        return subprocess.run(self._command(*arguments), capture_output=True, check=False).returncode == 0

    def _command(self, *arguments: str) -> list[str]:
        return [
            "buildah", "--root", str(self.storage / "root"), "--runroot", str(self.storage / "run"),
            "--storage-driver", self.driver, *arguments,
        ]  # fmt: skip


def run(command: list[str], environment: dict[str, str] | None = None) -> str:
    """Run `command` and return its standard output; ClusterError with its last output where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode == 0:
        return done.stdout
    said = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    tool = Path(command[0]).name
    if any(DISK_FULL in line.lower() for line in said):
        raise ClusterError(
            f"The disk under {paths.cache()} is full, so {tool} could not go on: "
            "free some space, or point DTJ_CACHE at a larger disk."
        )
    words = "\n    ".join(said[-12:]) or "it said nothing"
    raise ClusterError(
        f"{tool} ended with {done.returncode}; its last words, of which the first error is the cause:\n    {words}"
    )


@contextmanager
def secrets() -> Iterator[list[str]]:
    """Yield the `--secret` flags of a build while the files behind them exist."""
    bundle = ca_bundle()
    with tempfile.TemporaryDirectory() as scratch:
        configuration = Path(scratch) / "pip.conf"
        configuration.write_text(
            pip_configuration(_pip_config_list(), CA_IN_BUILD if bundle else None), encoding="utf-8"
        )
        flags = ["--secret", f"id=pip.conf,src={configuration}"]
        if bundle:
            flags += ["--secret", f"id=ca.crt,src={bundle}"]
        yield flags


def ca_bundle() -> Path | None:
    """Return the CA bundle of this machine: the one that a variable names, else Debian's."""
    named = (Path(os.environ[variable]) for variable in CA_VARIABLES if os.environ.get(variable))
    return next((path for path in (*named, TRUST_STORE) if path.is_file()), None)


def pip_configuration(listed: str, certificate: str | None) -> str:
    """Return a pip.conf from the output of `pip config list`; of two lines for a key the later one wins, as in pip."""
    values: dict[str, str] = {}
    for line in listed.splitlines():
        name, _, quoted = line.partition("=")
        section, _, key = name.partition(".")
        if key in PIP_KEYS and section in {"global", "install", ":env:"}:
            values[key] = str(ast.literal_eval(quoted))
    if certificate:
        values["cert"] = certificate
    parser = configparser.RawConfigParser()
    parser["global"] = values
    lines = ["[global]", *(f"{key} = {value}".replace("\n", "\n  ") for key, value in parser["global"].items())]
    return "\n".join(lines) + "\n"


def _pip_config_list() -> str:
    command = [sys.executable, "-m", "pip", "config", "list"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _docker_builds() -> bool:
    """Tell whether its daemon answers, the command accepts build secrets (BuildKit), and the base image can be had."""
    if not _docker("version", "--format", "{{.Server.Version}}") or "--secret" not in _docker("build", "--help"):
        return False
    if _docker("image", "inspect", "--format", "{{.Id}}", PULLED_BASE):
        return True
    with phase(f"docker pull {PULLED_BASE}"):
        return bool(_docker("pull", "--quiet", PULLED_BASE, timeout=PULL_SECONDS))


def _docker(*arguments: str, timeout: float = 10) -> str:
    """Return docker's standard output; empty where it is missing, fails, or takes more than `timeout` seconds."""
    command = ["docker", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=timeout, env=os.environ | WITH_BUILDKIT
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _storage_driver(storage: Path) -> str:
    """Return overlay where the cache's file system supports it, else vfs (slower, and larger on disk)."""
    paths.require_writable(storage)
    probe = Buildah(storage, "overlay", debian_base.wanted())
    return "overlay" if probe._succeeds("images") else "vfs"  # noqa: SLF001 - the same class, before it is known to work


def _name(ref: str) -> str:
    return ref.removeprefix("localhost/").partition(":")[0]
