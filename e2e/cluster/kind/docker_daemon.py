"""Debian's docker, for a machine where docker does not run: unpacked into the cache, not installed.

The daemon is a machine of its own (processes, mounts, network), as the nodes of an embedded cluster are: it changes
nothing of the host's network, and killing its first process ends it with all its containers. Its images stay in the
cache. Needs root.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
import shutil
import socket
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from e2e.cluster import cgroups, debian_programs, forward, locks, machine, network, paths
from e2e.cluster.interface import ClusterError
from e2e.cluster.kind import oci_runtime
from e2e.cluster.kind.docker import Docker
from e2e.cluster.machine import Machine
from e2e.cluster.progress import phase
from e2e.cluster.wait import wait_until

PACKAGES = ("docker.io", "containerd", "runc", "tini", "libdevmapper1.02.1")
LIBRARIES = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu")
MODULES = Path("/lib/modules")
"""kind mounts it into its nodes, and docker creates it where it is missing."""
READY_LIMIT = 60.0


class DockerDaemon:
    """The daemon for one kind cluster; `directory` holds its socket, logs and state."""

    def __init__(self, cluster: str, directory: Path) -> None:
        self._network = f"kind.{cluster}"
        self._directory = directory
        self._machine = Machine("docker", directory)

    @property
    def docker(self) -> Docker:
        """Return how to use it."""
        root = packages_root()
        environment = {
            "DOCKER_HOST": f"unix://{self._directory / 'docker.sock'}",
            "DOCKER_CONFIG": str(self._directory / "client"),
            "PATH": f"{root / 'usr/bin'}:{os.environ.get('PATH', '')}",
        }
        return Docker(environment, network.NAMED / self._namespace)

    @property
    def _namespace(self) -> str:
        return f"{network.PREFIX}{self._network}-docker"

    def runs(self) -> bool:
        """Tell whether the daemon's machine is up."""
        return self._machine.init_pid() is not None

    def start(self) -> None:
        """Start the daemon and wait until it answers. Raises ClusterError where it does not, and leaves nothing."""
        root = _unpacked()
        if network.namespaces(self._network):
            raise ClusterError(
                f"The network namespace {self._namespace} exists already, and {self._directory} does not: take down the"
                " cluster of that name that was started with another DTJ_STATE, or choose another name."
            )
        try:
            with phase("docker daemon"):
                self._start(root)
                wait_until(self.docker.answers, READY_LIMIT, self._not_ready, 0.1)
        except BaseException:
            self.stop()
            raise

    def _start(self, root: Path) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        if not MODULES.exists():
            MODULES.mkdir()
            (self._directory / "made-modules").touch()
        network.add_namespace(self._namespace)
        machine.start_namespaced(self._machine, self._namespace)
        written = self._directory / "written"
        written.mkdir(exist_ok=True)
        self._machine.run("sh", "-c", f"mount -t tmpfs none /run && mount -t tmpfs none {written}")
        for place in ("/etc", "/opt"):  # docker writes a key there, and containerd an empty directory
            upper, work = written / place[1:] / "upper", written / place[1:] / "work"
            options = f"lowerdir={place},upperdir={upper},workdir={work}"
            self._machine.run("sh", "-c", f"mkdir -p {upper} {work} && mount -t overlay none -o {options} {place}")
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        self._machine.start(
            "dockerd", "env", f"PATH={root / 'usr/sbin'}:{root / 'usr/bin'}:{os.environ.get('PATH', '')}",
            f"LD_LIBRARY_PATH={':'.join(str(root / name) for name in LIBRARIES)}", "dockerd",
            "--data-root", data_root(), "--exec-root", "/run/docker", "--pidfile", "/run/docker.pid",
            "--host", self.docker.environment["DOCKER_HOST"], "--cgroup-parent", f"/{self._cgroup}",
            "--add-runtime", f"permitted={self._runtime(root)}", "--default-runtime", "permitted",
            "--oom-score-adjust", "0", "--default-ulimit", f"nofile={files}:{files}",
            "--userland-proxy-path", root / "usr/sbin/docker-proxy", "--init-path", root / "usr/bin/docker-init",
        )  # fmt: skip

    @property
    def _cgroup(self) -> str:
        return f"dtj-{self._network}"

    def _runtime(self, root: Path) -> Path:
        """Write the program that docker runs as its runtime; it has to be one file."""
        script = self._directory / "runtime"
        words = [sys.executable, "-I", "-S", str(Path(oci_runtime.__file__)), str(root / "usr/sbin/runc")]
        script.write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n')
        script.chmod(0o755)
        return script

    def _not_ready(self) -> str:
        said = machine.last_log_line(self._machine.log("dockerd"))
        return f"Debian's docker does not run here ({said}): install and start docker, or use --provider embedded."

    def forward(self, listening: socket.socket, port: int) -> None:
        """Forward connections of a host's listening socket to a port on the daemon's loopback, until `stop`."""
        command = [
            "setsid", "--fork", *self.docker.enter,
            sys.executable, "-I", "-S", str(Path(forward.__file__)), str(listening.fileno()), "127.0.0.1", str(port),
        ]  # fmt: skip
        with (self._directory / "forward.log").open("ab") as log:
            subprocess.run(
                command, pass_fds=(listening.fileno(),), stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True
            )

    def stop(self) -> None:
        """End the daemon, its containers and its network. Idempotent."""
        if not self._directory.exists():
            return
        self._machine.cut_power()
        network.remove(self._network)
        cgroups.remove(self._cgroup)
        if (self._directory / "made-modules").exists():
            with contextlib.suppress(OSError):
                MODULES.rmdir()
        shutil.rmtree(self._directory, ignore_errors=True)


def unsupported_reason() -> str:
    """Return why Debian's docker cannot be started here; empty where it can."""
    if sys.platform != "linux" or not shutil.which("apt-get") or not shutil.which("dpkg"):
        return "this machine has no apt-get to fetch Debian's"
    return "" if os.geteuid() == 0 else "Debian's can be started by root alone"


def data_root() -> Path:
    """Return the directory of the daemon's images and containers."""
    return paths.cache() / "docker" / "data"


def exclusively() -> AbstractContextManager[None]:
    """Hold the lock of the daemon's directories while one is started."""
    return locks.held(paths.cache() / "docker" / "lock", "another run that starts docker", limit=1800)


def packages_root() -> Path:
    """Return the directory into which Debian's packages are unpacked."""
    return paths.cache() / "docker" / hashlib.sha256(repr(PACKAGES).encode()).hexdigest()[:12]


def _unpacked() -> Path:
    """Return the directory with Debian's docker, fetched and unpacked now where it is missing."""
    return debian_programs.unpacked(packages_root(), *PACKAGES, gib=0.8)
