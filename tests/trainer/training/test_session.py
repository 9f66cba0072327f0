"""dtj.session: a loop of the program's own, prepared and saved like any other."""

import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from tests.trainer.supervisor.conftest import until
from tests.trainer.training import launch

pytestmark = pytest.mark.trainer


@pytest.mark.parametrize("count", [1, 2])
def test_asked_to_save_or_to_leave_all_save_the_same_step_and_go_on_from_it(count, tmp_path):
    environment = launch.checkpoint(tmp_path)
    processes = launch.start_workers(count, "session.py", environment={**environment, "TEST_ASKED_AT": "2"})
    until(lambda: all("SAY " in process.said for process in processes), "not all trained")
    until((tmp_path / "checkpoint").exists, "nothing was saved though somebody asked for it")
    os.kill(processes[-1].pid, signal.SIGTERM)
    ended = [launch.finish(process) for process in processes]
    assert [each.code for each in ended] == [42] * count, ended[0].output + ended[-1].output
    (exit_line,) = {each.exit_line for each in ended}
    saved = re.fullmatch(r"dtj: asked to leave; saved step (\d+)", exit_line)
    assert saved is not None
    note = json.loads((tmp_path / "job.json").read_text())
    assert (note["step"], note["workers"]) == (int(saved[1]), count)
    resumed = launch.run_workers(count, "session.py", environment={**environment, "TEST_STEPS": "3"})
    for worker in resumed:
        assert worker.said["begun"] == int(saved[1])
        assert worker.said["made"] == int(saved[1]) + 3
        assert worker.said["reported"] == 3
        assert worker.said["weight"] == pytest.approx(0.99 ** worker.said["made"], rel=1e-3)
        assert worker.said["pipelines"] == count
        assert worker.said["garbage"] < 10_000  # looked at as usual again, once the first step is made


def test_all_leave_at_a_later_step_where_one_was_past_the_first_before_it_could_read_of_it(tmp_path):
    """The chief takes the next steps for as slow as its last one, and the other has looked just before it says so."""
    environment = {**launch.checkpoint(tmp_path), "TEST_ASKED_TO_LEAVE_AT": "2", "TEST_STALLS_AT": "3"}
    ended = launch.run_workers(2, "session.py", environment=environment)
    assert [each.code for each in ended] == [42, 42], ended[0].output + ended[1].output
    assert len({each.exit_line for each in ended}) == 1


@pytest.mark.parametrize("settings", [{"TEST_ASKED_TO_LEAVE_AT": "1"}, {"TEST_REPORTS_EVERY": "7", "TEST_AGAIN": ""}])
def test_all_leave_where_one_is_asked_before_its_first_step_or_few_steps_are_reported_or_it_trains_again(
    tmp_path, settings
):
    environment = {**launch.checkpoint(tmp_path), "TEST_ASKED_TO_LEAVE_AT": "2", **settings}
    ended = launch.run_workers(2, "session.py", environment=environment)
    assert [each.code for each in ended] == [42, 42], ended[0].output + ended[1].output
    assert len({each.exit_line for each in ended}) == 1


def test_all_leave_where_an_answer_of_the_leader_takes_its_time_on_the_way(tmp_path):
    environment = {**launch.checkpoint(tmp_path), "TEST_ASKED_TO_LEAVE_AT": "2"}
    with slow_way(0.005) as far:
        ended = launch.run_workers(2, "session.py", environment=environment, leader=far)
    assert [each.code for each in ended] == [42, 42], ended[0].output + ended[1].output


@contextmanager
def slow_way(seconds: float) -> Iterator[Callable[[str], str]]:
    """What gives the address of a relay to another address; all that goes through it takes so long, each way."""
    with ExitStack() as stack:

        def carry(source: socket.socket, target: socket.socket) -> None:
            with suppress(OSError):
                while packet := source.recv(1 << 16):
                    time.sleep(seconds)
                    target.sendall(packet)
                target.shutdown(socket.SHUT_WR)

        def accept(door: socket.socket, address: tuple[str, int]) -> None:
            with suppress(OSError):
                while True:
                    near = stack.enter_context(door.accept()[0])
                    try:
                        far = stack.enter_context(socket.create_connection(address))
                    except OSError:  # the leader does not listen yet
                        near.close()
                        continue
                    for ends in ((near, far), (far, near)):
                        threading.Thread(target=carry, args=ends, daemon=True).start()

        def relay(address: str) -> str:
            host, port = address.rsplit(":", 1)
            door = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            threading.Thread(target=accept, args=(door, (host, int(port))), daemon=True).start()
            return f"127.0.0.1:{door.getsockname()[1]}"

        yield relay


def test_a_loss_that_is_not_finite_ends_the_program_as_it_ends_the_loop():
    ended = launch.run("session.py", environment={"TEST_NAN_AT": "2"})
    assert ended.code == 1
    assert ended.exit_line.startswith("dtj: the loss is NaN at step 2; lower the learning rate")
