"""Calls of callbacks: those that last are reported, those that return soon cost no message."""

import time
from contextlib import closing

from dtj_trainer.ipc.callback_watch import LOOK_SECONDS, CallbackWatch
from dtj_trainer.ipc.connection import Connection, connection_pair
from dtj_trainer.ipc.messages import CallbackEnded, CallbackStarted, Hello


def test_a_call_that_lasts_is_reported_and_short_ones_are_not():
    ours, end = connection_pair()
    theirs = Connection(end)
    with closing(ours), closing(theirs):
        watch = CallbackWatch(theirs)
        for _ in range(1000):
            with watch.call("on_train_batch_end"):
                pass
        with watch.call("on_epoch_end"), watch.call("on_test_begin"):
            time.sleep(3 * LOOK_SECONDS)
        theirs.send(Hello())
        messages = [ours.receive() for _ in range(3)]
    assert messages == [CallbackStarted("on_epoch_end"), CallbackEnded(), Hello()]
