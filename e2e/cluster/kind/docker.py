"""A docker daemon that can be used: how its commands are run, and where its published ports are."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from e2e.cluster.interface import ClusterError


@dataclass(frozen=True)
class Docker:
    """A docker daemon.

    `environment` is added to that of its clients. `network` is the network namespace in which the daemon publishes
    ports on 127.0.0.1; None for this machine's own.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    network: Path | None = None

    @property
    def enter(self) -> tuple[str, ...]:
        """Return the command that runs another one in the daemon's network."""
        return ("nsenter", f"--net={self.network}") if self.network else ()

    def run(self, *arguments: str, stdin: IO[bytes] | str | None = None) -> str:
        """Run a docker command; returns its output, ClusterError with docker's words where it fails."""
        return self.client("docker", *arguments, stdin=stdin)

    def client(self, program: str, *arguments: str, stdin: IO[bytes] | str | None = None) -> str:
        """Run `program`, a client of the daemon, in the daemon's network; returns its output.

        Raises ClusterError with the program's last words where it fails.
        """
        with tempfile.TemporaryFile() as given:
            if isinstance(stdin, str):
                given.write(stdin.encode())
                given.seek(0)
            done = subprocess.run(
                [*self.enter, program, *arguments],
                stdin=given if stdin is None or isinstance(stdin, str) else stdin,
                capture_output=True,
                check=False,
                env={**os.environ, **self.environment},
            )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            raise ClusterError(f"`{Path(program).name} {' '.join(arguments)}` failed: {said}")
        return done.stdout.decode(errors="replace")

    def answers(self) -> bool:
        """Tell whether the daemon accepts commands."""
        try:
            self.run("version")
        except (ClusterError, OSError):
            return False
        return True

    def has_image(self, ref: str) -> bool:
        """Tell whether the daemon has an image of that name."""
        try:
            self.run("image", "inspect", ref)
        except ClusterError:
            return False
        return True


def installed() -> Docker | None:
    """Return the docker of this machine, or the one that DOCKER_HOST names; None where none answers."""
    docker = Docker()
    return docker if shutil.which("docker") and docker.answers() else None
