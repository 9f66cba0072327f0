"""Who is taken for the zygote."""

import errno
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from dtj_trainer.ipc.connection import Connection, socket_pair
from dtj_trainer.ipc.messages import Exited, Fork, Started, StartOrder, ZygoteReady, encode
from dtj_trainer.preload.spawn import Spawned
from dtj_trainer.supervisor import process_pool
from dtj_trainer.supervisor.process_pool import SILENT_SECONDS, ProcessPool, StartFailed

ENVIRONMENT = {"PATH": "/bin", "TF_NUM_INTRAOP_THREADS": "2"}
ORDER = StartOrder(serves=False, in_cluster=False, has_peers=False, uses_dtj=False, program="x.py")


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def zygote(pair) -> Iterator[Spawned]:
    """A process that was started with a part of the environment."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield Spawned(process.pid, pair[0], {"PATH": "/bin"})
        process.kill()


def test_one_that_was_started_with_a_part_of_the_environment_tells_its_children_the_rest(zygote, pair):
    pool = ProcessPool(ENVIRONMENT, zygote, preload=True)
    pair[1].send(encode(ZygoteReady(1.0)))
    pool.receive()
    ours, childs = socket_pair()
    with ours:
        pool.spawn(replace(ORDER, environment={"TF_CONFIG": "{}"}), childs)
    fork, descriptors = Connection(pair[1]).receive_with()
    os.close(*descriptors)
    assert fork == Fork(1, replace(ORDER, environment={"TF_NUM_INTRAOP_THREADS": "2", "TF_CONFIG": "{}"}))


def test_what_only_the_program_reads_may_differ_from_what_it_was_started_with(zygote, pair):
    zygote = zygote._replace(environment={"PATH": "/bin", "DTJ_STALL_SECONDS": "60"})
    pool = ProcessPool({"PATH": "/bin", "DTJ_STALL_SECONDS": "60.0"}, zygote, preload=True)
    assert pool.control is not None
    assert pool.control.fileno() == pair[0].fileno()
    assert pool._missing_variables == {"DTJ_STALL_SECONDS": "60.0"}


def test_what_it_said_before_it_went_is_heard_though_it_had_not_heard_all(zygote, pair):
    pool = ProcessPool(ENVIRONMENT, zygote, preload=True)
    pair[1].send(encode(ZygoteReady(1.0)))
    pool.receive()
    pair[1].send(encode(Exited(7, 0)))
    pool.retire()
    pair[1].close()
    pool.receive()
    assert pool.events() == [ZygoteReady(1.0), Exited(7, 0)]


def test_one_that_imports_is_ended_at_once_when_it_is_not_needed_any_more(zygote):
    ProcessPool(ENVIRONMENT, zygote, preload=True).retire()
    assert os.waitstatus_to_exitcode(os.waitpid(zygote.pid, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize(("environment", "preload"), [({"PATH": "/usr/bin"}, True), (ENVIRONMENT, False)])
def test_one_that_was_started_with_something_else_or_is_not_wanted_is_ended(zygote, environment, preload):
    pool = ProcessPool(environment, zygote, preload=preload)
    assert os.waitstatus_to_exitcode(os.waitpid(zygote.pid, 0)[1]) == -signal.SIGKILL
    assert pool.control is None


def forks_none(pool: ProcessPool, _zygotes: socket.socket) -> None:
    ours, childs = socket_pair()
    with ours:
        pool.spawn(ORDER, childs)


def tells_no_end(pool: ProcessPool, zygotes: socket.socket) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    zygotes.send(encode(Started(1, gone.pid)))
    pool.receive()


@pytest.mark.parametrize("owes", [forks_none, tells_no_end])
def test_one_that_owes_an_answer_and_is_silent_is_ended(
    zygote, pair, owes: Callable[[ProcessPool, socket.socket], None]
):
    pool = ProcessPool(ENVIRONMENT, zygote, preload=True)
    pair[1].send(encode(ZygoteReady(1.0)))
    pool.receive()
    owes(pool, pair[1])
    began = time.monotonic()
    pool.poll(began)
    pool.poll(began + SILENT_SECONDS - 0.1)
    assert os.waitpid(zygote.pid, os.WNOHANG) == (0, 0)
    pool.poll(began + SILENT_SECONDS + 0.1)
    assert os.waitstatus_to_exitcode(os.waitpid(zygote.pid, 0)[1]) == -signal.SIGKILL


def no_process(*_arguments: object, **_options: object) -> None:
    raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")


def test_where_no_process_can_be_made_a_zygote_is_tried_again_later(monkeypatch):
    monkeypatch.setattr(process_pool, "spawn", no_process)
    pool = ProcessPool(ENVIRONMENT, preload=True)
    pool.poll(time.monotonic())
    retry_at = pool.next_poll()
    assert retry_at is not None
    assert retry_at > time.monotonic()


def test_where_no_process_can_be_made_the_process_failed_to_start(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", no_process)
    pool = ProcessPool(ENVIRONMENT, preload=False)
    ours, childs = socket_pair()
    with ours:
        pool.spawn(ORDER, childs)
        assert ours.recv(1) == b""
    assert pool.events() == [StartFailed(1)]
