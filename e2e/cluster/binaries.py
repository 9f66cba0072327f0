"""Builds Kubernetes and other programs from their Go modules, and caches them.

Each directory below binaries/ is a Go module whose `tool` lines name the
programs, or which is one itself; go.sum pins every byte of their sources.
Programs that share most dependencies with Kubernetes, and need no later
versions of them, are in its module, so that these are compiled once. A
program's cache key is made from the directory's files, the Go version and the
flags, so no outdated program is ever run.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from e2e.cluster import locks, paths
from e2e.cluster.interface import ClusterError
from e2e.cluster.progress import Phase, phase
from e2e.cluster.toolchain import Go, toolchain

KUBERNETES = "v1.35.4"
_VERSION = "k8s.io/component-base/version"
_STAMP = f"-X {_VERSION}.gitVersion={KUBERNETES} -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor=35"


@dataclass(frozen=True)
class Program:
    """One command: its name, the module directory that pins it, and its Go package."""

    name: str
    module: str
    package: str

    @property
    def ldflags(self) -> str:
        """Return the linker flags: no symbol table, and for Kubernetes the version that it reports."""
        return f"-s -w {_STAMP}" if self.module == "kubernetes" else "-s -w"

    @property
    def directory(self) -> Path:
        """Return the directory of its go.mod."""
        return paths.SOURCES / "binaries" / self.module


def _kubernetes(name: str) -> Program:
    return Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}")


PROGRAMS = {
    program.name: program
    for program in (
        Program("etcd", "kubernetes", "go.etcd.io/etcd/server/v3"),
        *map(_kubernetes, ("kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler")),
        *map(_kubernetes, ("kubelet", "kube-proxy")),
        Program("coredns", "coredns", "."),
        Program("helm", "kubernetes", "helm.sh/helm/v4/cmd/helm"),
        _kubernetes("kubeadm"),
        Program("kind", "kind", "sigs.k8s.io/kind"),
        Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
        Program("fake-gcs-server", "fake-gcs-server", "github.com/fsouza/fake-gcs-server"),
        Program("versitygw", "versitygw", "github.com/versity/versitygw/cmd/versitygw"),
    )
}
"""In the order of need: an API server first."""

KIND = ("kubeadm", "kind")
TESTS = tuple(name for name in PROGRAMS if name not in KIND)
"""What `make test` needs."""
CONTROL_PLANE = ("etcd", "kube-apiserver", "kubectl")
CONTROLLERS = ("kube-controller-manager", "kube-scheduler")
NODE = ("kubelet", "kube-proxy", "coredns")
CLUSTER = (*CONTROL_PLANE, *CONTROLLERS, *NODE)


def ensure(*names: str) -> dict[str, Path]:
    """Return the paths of the named programs, built now where they are missing.

    Raises ClusterError where Go is missing, the disk is full, or a build fails.
    """
    if unknown := sorted(set(names) - PROGRAMS.keys()):
        raise ClusterError(f"{unknown[0]!r} is none of the programs: {', '.join(PROGRAMS)}.")
    wanted = [program for program in PROGRAMS.values() if program.name in names]
    go = toolchain(minimum_go())
    found = {program.name: cached(program, go) for program in wanted}
    if all(path.exists() for path in found.values()):
        return found
    with locks.held(paths.cache() / "bin" / "build.lock", "another run to finish its build"):
        for program in wanted:
            if not found[program.name].exists():
                _require_space(go)
                _build(program, go, found[program.name])
    return found


@cache
def path(name: str) -> Path:
    """Return the path of one program, built now where it is missing."""
    return ensure(name)[name]


def cached(program: Program, go: Go) -> Path:
    """Return the path of the program once it is built with `go`."""
    digest = hashlib.sha256()
    for part in (
        *(path.read_bytes() for path in sorted(program.directory.iterdir())),
        go.version.encode(),
        go.environment()["GOFLAGS"].encode(),
        program.ldflags.encode(),
    ):
        digest.update(hashlib.sha256(part).digest())
    return paths.cache() / "bin" / digest.hexdigest()[:16] / program.name


def minimum_go() -> tuple[int, int]:
    """Return the newest Go version that any of the pinned modules requires."""
    lines = [path.read_text() for path in sorted((paths.SOURCES / "binaries").glob("*/go.mod"))]
    versions = [re.search(r"^go (\d+)\.(\d+)", text, re.MULTILINE) for text in lines]
    return max((int(match[1]), int(match[2])) for match in versions if match)


def _require_space(go: Go) -> None:
    """Check the space for a full build where Go's own caches are empty; for a single program otherwise."""
    ran = subprocess.run(
        [str(go.command), "env", "GOCACHE", "GOMODCACHE"],
        capture_output=True,
        text=True,
        check=True,
        env=go.environment(),
    )
    build, modules = map(Path, ran.stdout.split("\n")[:2])
    cold = not build.exists() or not modules.exists()
    needs = {build: 3.6, modules: 1.2, paths.cache(): 2.2} if cold else {paths.cache(): 0.7}
    paths.require_space(needs, "Building Kubernetes")


def _build(program: Program, go: Go, target: Path) -> None:
    """Build to a temporary name, then rename, so that a half-built program never exists."""
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.new")
    try:
        with phase(f"build {program.name}") as bar:
            bar.say(f"fetch sources of {program.name}")
            packages = _run(go, program, ["list", "-deps", program.package])
            bar.say(f"build {program.name}")
            arguments = ["build", "-v", "-ldflags", program.ldflags, "-o", str(unfinished), program.package]
            environment = go.environment()
            with subprocess.Popen(
                [str(go.command), *arguments], cwd=program.directory, env=environment, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True,
            ) as process:  # fmt: skip
                last = _watch(process.stderr, set(packages), bar)
            if process.returncode:
                raise ClusterError(_failure(program, last))
        unfinished.rename(target)
    finally:
        unfinished.unlink(missing_ok=True)


def _watch(output: IO[str] | None, packages: set[str], bar: Phase) -> list[str]:
    """Show how many packages are compiled; returns the lines that name none."""
    assert output is not None
    rest: list[str] = []
    for line in output:
        if line.strip() in packages:
            bar.total(len(packages))
            bar.advance()
        else:
            rest.append(line.strip())
    return rest


def _run(go: Go, program: Program, arguments: list[str]) -> list[str]:
    ran = subprocess.run(
        [str(go.command), *arguments],
        cwd=program.directory,
        env=go.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise ClusterError(_failure(program, ran.stderr.splitlines()))
    return ran.stdout.split()


def _failure(program: Program, lines: list[str]) -> str:
    words = next((line for line in reversed(lines) if line.strip()), "no output")
    return (
        f"Go could not build {program.name} ({words.strip()}): if it could not download, set GOPROXY to a module "
        f"proxy that this machine reaches; sources are pinned in {program.directory}."
    )
