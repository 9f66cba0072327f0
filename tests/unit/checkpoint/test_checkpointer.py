"""The thread that writes checkpoints."""

import threading
from pathlib import Path

import pytest

from dtj_trainer.checkpoint.checkpointer import Checkpointer


def test_an_error_of_a_save_is_raised_once_when_the_save_has_ended(tmp_path: Path):
    checkpointer = Checkpointer(str(tmp_path), 2, None)
    ends = threading.Event()

    def fail() -> None:
        ends.wait(30)
        raise OSError("no such volume")

    checkpointer._pending = checkpointer._writer.submit(fail)
    checkpointer.check_for_errors()
    checkpointer.wait_at_most(0.01)
    ends.set()
    checkpointer.wait_at_most(30)
    with pytest.raises(OSError, match="no such volume"):
        checkpointer.check_for_errors()
    checkpointer.check_for_errors()
    checkpointer.wait_until_finished()
