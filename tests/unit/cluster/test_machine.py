"""A machine without namespaces: processes start, end, are told apart, and never outlive the machine."""

import os
import signal
import stat
import tempfile
import time
from pathlib import Path

import pytest

from e2e.cluster import machine
from e2e.cluster.interface import ClusterError
from e2e.cluster.machine import Machine


@pytest.fixture
def short():
    """Return a directory with a path short enough for a unix socket."""
    with tempfile.TemporaryDirectory(prefix="dtj-test-", dir="/tmp", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@pytest.fixture
def computer(short):
    host = Machine("m", short / "m")
    init = machine.start_plain(host)
    yield host
    assert init.stdin is not None
    init.stdin.close()
    init.wait(timeout=10)
    assert not host.directory.exists()


def test_a_started_process_runs_until_it_is_stopped(computer):
    computer.start("sleep", "sleep", "600")
    assert computer.status() == {"sleep": None}
    computer.stop("sleep")
    assert computer.status() == {"sleep": -signal.SIGKILL}


def test_starting_a_running_process_again_starts_no_second(computer):
    computer.start("sleep", "sleep", "600")
    first = _children(computer)
    computer.start("sleep", "sleep", "600")
    assert _children(computer) == first


def test_a_process_that_ended_is_told_with_its_last_log_line(computer):
    computer.start("short", "sh", "-c", "echo the reason; exit 3")
    _until(lambda: computer.status() == {"short": 3})
    with pytest.raises(ClusterError, match="short of m ended with 3: the reason"):
        computer.require_running()


def test_a_program_that_is_missing_ends_with_a_sentence(computer):
    computer.start("none", "/no/such/program")
    _until(lambda: computer.status() == {"none": 127})
    assert "/no/such/program" in machine.last_log_line(computer.log("none"))


def test_a_command_gives_its_output_or_its_error(computer):
    assert computer.run("echo", "hello") == "hello\n"
    with pytest.raises(ClusterError, match="`false` failed on m"):
        computer.run("false")


def test_what_runs_makes_files_that_others_may_read_whatever_umask_the_caller_has(short):
    host = Machine("m", short / "m")
    before = os.umask(0o077)
    try:
        init = machine.start_plain(host)
    finally:
        os.umask(before)
    host.run("mkdir", host.directory / "upper")
    assert stat.S_IMODE((host.directory / "upper").stat().st_mode) == 0o755
    machine.end(init)


def test_an_unknown_order_is_refused_and_init_lives_on(computer):
    with pytest.raises(ClusterError, match="refused dance"):
        computer._order(do="dance")
    assert computer.status() == {}


def test_killing_init_kills_its_processes(short):
    host = Machine("m", short)
    init = machine.start_plain(host)
    host.start("sleep", "sleep", "600")
    (child,) = _children(host)
    os.kill(init.pid, signal.SIGKILL)
    init.wait()
    assert init.stdin is not None
    init.stdin.close()
    _until(lambda: not Path(f"/proc/{child}").exists() or " Z " in Path(f"/proc/{child}/stat").read_text())
    assert host.status() == {}
    assert host.init_pid() is None


def _children(host: Machine) -> list[str]:
    pid = host.init_pid()
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _until(condition, limit=10.0):
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
