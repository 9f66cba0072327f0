"""A machine: an init process, and commands to it.

A plain machine shares the host's namespaces and runs as long as its creator
holds the lifeline. A namespaced machine has its own network, processes and
mounts, and runs until its init is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster.interface import ClusterError
from e2e.cluster.wait import wait_until

INIT = str(Path(__file__).with_name("init.py"))
START_LIMIT = 20.0
END_LIMIT = 30.0
COLLECTION = {"GOGC": "400"}
"""Environment of all Go programs of a machine: they collect garbage a quarter as often, which on two cores took a
fifth of the API server's time, and may use five times their live memory instead of twice. Each collection takes longer,
so that the slowest writes become slower: measurements of these run without it."""


@dataclass(frozen=True)
class Machine:
    """A machine by its directory, which holds control.sock and one log a process."""

    name: str
    directory: Path

    @property
    def control(self) -> Path:
        """Return the socket of its init."""
        return self.directory / "control.sock"

    def log(self, process: str) -> Path:
        """Return the log file of a process."""
        return self.directory / f"{process}.log"

    def start(self, process: str, *argv: str | Path, keep: tuple[int, ...] = ()) -> None:
        """Start a process; `keep` are descriptors of init that it inherits."""
        self._order(do="start", name=process, argv=[str(word) for word in argv], log=str(self.log(process)), keep=keep)

    def stop(self, process: str) -> None:
        """Kill a process and wait for its end."""
        self._order(do="stop", name=process)

    def run(self, *argv: str | Path) -> str:
        """Run a command inside the machine and wait for it; returns its output, ClusterError where it fails."""
        done = self._order(do="run", argv=[str(word) for word in argv])
        if done["code"]:
            raise ClusterError(f"`{' '.join(map(str, argv))}` failed on {self.name}: {done['output'].strip()}")
        return str(done["output"])

    def status(self) -> dict[str, int | None]:
        """Return the exit code of each process, None while it runs; empty where the machine is down."""
        try:
            answer = self._order(do="status")
        except (OSError, ClusterError):
            return {}
        return {name: entry["code"] for name, entry in answer.items()}

    def init_pid(self) -> int | None:
        """Return the pid of init; 0 where this process cannot see it, None where the machine is down."""
        with contextlib.suppress(OSError), self._connect() as connection:
            raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", raw)[0])
        return None

    def cut_power(self) -> None:
        """Kill init, and with it all that runs on this machine.

        Raises:
            ClusterError: init is in another PID namespace, or does not die.
        """
        pid = self.init_pid()
        if pid == 0:
            raise ClusterError(
                f"Machine {self.name} in {self.directory} runs in a PID namespace that cannot be seen from here: "
                "run this where the cluster was started."
            )
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not _exists(pid), END_LIMIT, lambda: f"The processes of {self.name} do not die.", 0.01)

    def wait_for_init(self) -> None:
        """Wait until init accepts commands."""
        wait_until(
            lambda: self.init_pid() is not None,
            START_LIMIT,
            lambda: f"Machine {self.name} did not start: {last_log_line(self.log('init'))}",
            0.01,
        )

    def require_running(self) -> None:
        """Raise ClusterError with the last log line of a process that has ended."""
        for process, code in self.status().items():
            if code is not None:
                raise ClusterError(f"{process} of {self.name} ended with {code}: {last_log_line(self.log(process))}")

    def _order(self, **order: Any) -> dict[str, Any]:
        with self._connect() as connection, connection.makefile("rwb") as stream:
            stream.write(json.dumps(order).encode() + b"\n")
            stream.flush()
            answer: dict[str, Any] = json.loads(stream.readline() or b'{"error": "init has gone"}')
        if "error" in answer:
            raise ClusterError(f"Machine {self.name} refused {order['do']}: {answer['error']}")
        return answer

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(60)
        try:
            connection.connect(str(self.control))
        except OSError:
            connection.close()
            raise
        return connection


def start_plain(machine: Machine, environment: Mapping[str, str] = COLLECTION) -> subprocess.Popen[bytes]:
    """Start a machine without namespaces, with `environment` added to its programs' environment.

    It ends, and its directory is deleted, when the returned process's stdin closes.
    """
    machine.directory.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", INIT, str(machine.control), "lifeline", "remove"],
        stdin=subprocess.PIPE, start_new_session=True, env={**os.environ, **environment},
    )  # fmt: skip
    machine.wait_for_init()
    return process


def end(init: subprocess.Popen[bytes]) -> None:
    """Stop a machine without namespaces, and wait until it is gone."""
    assert init.stdin is not None
    init.stdin.close()
    init.wait(timeout=30)


def start_namespaced(machine: Machine, netns: str, *, keep: tuple[int, ...] = ()) -> None:
    """Start a machine with its own processes and mounts inside the network namespace `netns`.

    It is not a child of this process, and outlives it.
    """
    machine.directory.mkdir(parents=True, exist_ok=True)
    machine.control.unlink(missing_ok=True)
    command = [
        "setsid", "--fork", "nsenter", f"--net=/run/netns/{netns}",
        "unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc",
        sys.executable, "-I", "-S", INIT, str(machine.control),
    ]  # fmt: skip
    with machine.log("init").open("ab") as log:
        done = subprocess.run(
            command, pass_fds=keep, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False, cwd="/",
            env={"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), "HOME": "/root"} | COLLECTION,
        )  # fmt: skip
    if done.returncode:
        raise ClusterError(f"Could not start machine {machine.name}: {last_log_line(machine.log('init'))}")
    machine.wait_for_init()


def _exists(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def last_log_line(log: Path) -> str:
    """Return the last non-empty line of a log."""
    if not log.exists():
        return "it left no log"
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip()[:400] if lines else "it wrote nothing"
