"""Messages between processes: what is sent is what is received."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from dtj_trainer.ipc.connection import Connection, socket_pair
from dtj_trainer.ipc.messages import (
    CheckpointRestored,
    CheckpointSaved,
    CheckpointStarted,
    Exited,
    Fork,
    Hello,
    Leave,
    Message,
    PhaseChanged,
    Preempt,
    ProcessExit,
    Profile,
    ReadyForTakeover,
    Retire,
    SaveNow,
    Serving,
    Start,
    Started,
    StartOrder,
    StepsDone,
    ZygoteReady,
    decode,
    encode,
)
from dtj_trainer.ipc.reporter import Reporter

ORDER = StartOrder(
    serves=False,
    in_cluster=True,
    has_peers=True,
    uses_dtj=True,
    program="train.py",
    arguments=("--epochs", "3"),
    environment={"TF_CONFIG": "{}", "type": "Start"},
)
MESSAGES: tuple[Message, ...] = (
    Hello(),
    PhaseChanged("build", 1.5),
    PhaseChanged("train"),
    StepsDone(7, 2, 0.5, examples=64, total_steps=10, loss=0.25, metrics={"accuracy": 0.5, "type": 1.0}),
    CheckpointStarted(7),
    CheckpointSaved(7, 0.1),
    CheckpointRestored(7),
    Serving(),
    ReadyForTakeover(),
    ProcessExit("user-error", 1, "ä", exception="ValueError", metrics={}, printed=True),
    Start({"DTJ_GENERATION": "2"}),
    Preempt(),
    SaveNow(),
    Profile(20),
    Leave(),
    Fork(1, ORDER),
    Retire(),
    ZygoteReady(1.5),
    Started(1, 4711),
    Exited(4711, 9),
)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_was_sent(message):
    assert decode(encode(message)) == message


def test_numbers_that_json_does_not_know_become_null_and_those_of_numpy_pythons():
    rate: Any = np.float32(0.5)
    done = StepsDone(1, 1, 1.0, loss=math.nan, learning_rate=rate, metrics={"a": np.float64(2), "b": math.inf})
    assert decode(encode(done)) == StepsDone(1, 1, 1.0, loss=None, learning_rate=0.5, metrics={"a": 2.0, "b": None})


@pytest.mark.parametrize(
    "packet",
    [b"", b"{", b"[]", b"3", b'{"type": "Nothing"}', b'{"type": "Profile"}', b'{"type": 3}', b'{"type": "StartOrder"}'],
)
def test_a_packet_without_a_known_message_is_none(packet: bytes):
    assert decode(packet) is None


def test_what_was_said_before_the_other_end_closed_without_reading_all_is_received():
    ours, theirs = socket_pair()
    with ours, theirs:
        ours.setblocking(False)
        connection = Connection(ours)
        connection.send(Retire())
        Connection(theirs).send(Exited(7, 0))
        theirs.close()
        assert connection.receive() == Exited(7, 0)
        assert connection.receive() is None


def test_nothing_yet_is_not_the_end():
    ours, theirs = socket_pair()
    with ours, theirs:
        ours.setblocking(False)
        with pytest.raises(BlockingIOError):
            Connection(ours).receive()


def test_without_a_supervisor_nothing_is_said_and_nothing_heard():
    connection = Connection(None)
    assert not connection.connected
    assert connection.send(Hello())
    assert connection.receive() is None


def test_steps_that_follow_one_another_at_once_are_summed():
    ours, theirs = socket_pair()
    with ours, theirs:
        reporter, heard = Reporter(Connection(theirs)), Connection(ours)
        for step in range(1, 4):
            reporter.steps_done(StepsDone(step, 1, 0.5, examples=8, loss=1.0 / step))
        assert heard.receive() == StepsDone(1, 1, 0.5, examples=8, loss=1.0)
        reporter.phase("save")
        assert heard.receive() == StepsDone(3, 2, 1.0, examples=16, loss=1.0 / 3)
        assert heard.receive() == PhaseChanged("save")


def test_a_message_is_an_object_with_the_name_of_its_class():
    assert json.loads(encode(Profile(3))) == {"type": "Profile", "steps": 3}
