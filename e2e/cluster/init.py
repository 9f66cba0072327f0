"""The first process of a machine: starts the others, reaps them, accepts commands over a socket.

In a namespaced machine it is PID 1, so that killing it ends all processes at
once, containers and their shims included: the kernel does that. In a machine
without namespaces it follows its creator through a lifeline (standard input):
when that ends, everything is killed, however the creator died.

Runs by file name with the bare standard library, as
`python -I -S init.py SOCKET [lifeline] [remove]`; with `remove` it deletes the
socket's directory at the end. One JSON line in, one JSON line out:

    {"do": "start", "name": N, "argv": [...], "log": PATH, "keep": [FD, ...]}  -> {"pid": P}
    {"do": "stop", "name": N}        kill its whole session and wait           -> {}
    {"do": "run", "argv": [...]}     to its end                                -> {"code": C, "output": TEXT}
    {"do": "status"}                 -> {NAME: {"pid": P, "code": null or C}}
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
from dataclasses import dataclass
from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass
class StartedProcess:
    """One started process; `code` is None while it runs, negative for a signal."""

    pid: int
    code: int | None = None


class Init:
    """The event loop and the processes that it has started."""

    def __init__(self, path: str) -> None:
        self.processes: dict[str, StartedProcess] = {}
        for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208
            with contextlib.suppress(OSError):
                os.set_inheritable(descriptor, descriptor <= 2)
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.server.bind(path)
        self.server.listen(16)

    def serve(self, *, lifeline: bool) -> None:
        """Accept commands until the lifeline ends; permanently without one."""
        woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(ignored, signal.SIG_IGN)
        selector = selectors.DefaultSelector()
        selector.register(woken, selectors.EVENT_READ)
        selector.register(self.server, selectors.EVENT_READ)
        if lifeline:
            selector.register(sys.stdin, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is sys.stdin and not os.read(0, 4096):
                    return
                if key.fileobj is self.server:
                    self._answer()
                elif key.fd == woken:
                    with contextlib.suppress(BlockingIOError):
                        os.read(woken, 4096)
            self._reap()

    def end(self) -> None:
        """Kill every process started here, with its session."""
        for process in self.processes.values():
            if process.code is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)

    def _answer(self) -> None:
        connection, _ = self.server.accept()
        with connection, contextlib.suppress(OSError), connection.makefile("rb") as orders:
            line = orders.readline()
            if line:
                connection.sendall(json.dumps(self._carry_out(line)).encode() + b"\n")

    def _carry_out(self, line: bytes) -> dict[str, Any]:
        try:
            order = json.loads(line)
            answer: dict[str, Any] = getattr(self, f"do_{order['do']}")(order)
        except (OSError, ValueError, KeyError, AttributeError) as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return answer

    def do_start(self, order: dict[str, Any]) -> dict[str, Any]:
        """Start a process in its own session, output appended to its log."""
        known = self.processes.get(order["name"])
        if known and known.code is None:
            return {"pid": known.pid}
        with open(order["log"], "ab") as log:  # noqa: PTH123
            pid = spawn(order["argv"], log.fileno(), order.get("keep", []))
        self.processes[order["name"]] = StartedProcess(pid)
        return {"pid": pid}

    def do_stop(self, order: dict[str, Any]) -> dict[str, Any]:
        """Kill a process with its session; wait until it is gone."""
        process = self.processes.get(order["name"])
        if process and process.code is None:
            os.killpg(process.pid, signal.SIGKILL)
            _, status = os.waitpid(process.pid, 0)
            process.code = os.waitstatus_to_exitcode(status)
        return {}

    def do_run(self, order: dict[str, Any]) -> dict[str, Any]:
        """Run a command and wait for it."""
        with tempfile.TemporaryFile() as output:
            pid = spawn(order["argv"], output.fileno(), [])
            _, status = os.waitpid(pid, 0)
            output.seek(0)
            return {"code": os.waitstatus_to_exitcode(status), "output": output.read().decode(errors="replace")}

    def do_status(self, _order: dict[str, Any]) -> dict[str, Any]:
        """Return every process that was started."""
        self._reap()
        return {name: {"pid": process.pid, "code": process.code} for name, process in self.processes.items()}

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                for process in self.processes.values():
                    if process.pid == pid:
                        process.code = os.waitstatus_to_exitcode(status)


def spawn(argv: list[str], output: int, keep: list[int]) -> int:
    """Fork and execute; the child dies with its parent. Returns its pid once it executes, or has failed to."""
    parent = os.getpid()
    begun, closed_by_exec = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _become(argv, output, keep, parent)
    os.close(closed_by_exec)
    os.read(begun, 1)
    os.close(begun)
    return pid


def _become(argv: list[str], output: int, keep: list[int], parent: int) -> NoReturn:
    try:
        os.setsid()
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before the line above could tell
            os._exit(127)
        for restored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(restored, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        for descriptor in keep:
            os.set_inheritable(descriptor, True)
        os.execvp(argv[0], argv)  # noqa: S606
    except OSError as error:
        os.write(2, f"{argv[0]}: {error}\n".encode())
    finally:
        os._exit(127)


def main() -> None:
    """Serve until the lifeline ends."""
    os.umask(0o022)  # under a strict one of the caller's, no pod's user may enter its own root directory
    path, *rest = sys.argv[1:]
    init = Init(path)
    try:
        init.serve(lifeline="lifeline" in rest)
    finally:
        init.end()
        if "remove" in rest:
            shutil.rmtree(os.path.dirname(path), ignore_errors=True)  # noqa: PTH120


if __name__ == "__main__":
    main()
