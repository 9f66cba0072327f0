"""What a person sees: a bar on a terminal, lines in a log, nothing from anybody but the chief."""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress

import pytest

from dtj_trainer.reporting import console
from dtj_trainer.reporting.console import BEGINNING_OF_LINE, Console


@pytest.fixture(autouse=True)
def always_in_time(monkeypatch):
    monkeypatch.setattr(console, "DRAW_SECONDS", 0.0)
    monkeypatch.setattr(console, "EVERY_SECONDS", 0.0)


@contextmanager
def terminal() -> Iterator[list[str]]:
    """What was shown on a terminal meanwhile, in one piece."""
    ours, theirs = os.openpty()
    shown: list[str] = []
    with os.fdopen(theirs, "w") as tty, redirect_stdout(tty):
        yield shown
    held = b""
    with suppress(OSError):  # EIO: the other end is closed and everything is read
        while part := os.read(ours, 65536):
            held += part
    os.close(ours)
    shown.append(held.decode())


def test_a_terminal_shows_a_bar_that_an_epochs_line_replaces():
    with terminal() as shown:
        chief = Console(enabled=True, total_steps=100, epochs=2)
        chief.steps_done(25, 0, 0.5, 800)
        chief.epoch_ended(50, 0, {"loss": 0.25})
    nothing, bar, line = shown[0].split(BEGINNING_OF_LINE)
    assert nothing == ""
    assert bar.startswith("[======                  ] step 25/100  epoch 1/2  loss 0.5  ")
    assert "\n" not in bar
    assert line.startswith("dtj: [============            ] step 50/100  epoch 1/2  loss 0.25  ")
    assert line.endswith("\n")


def test_a_log_gets_lines_without_a_bar():
    with redirect_stdout(io.StringIO()) as log:
        Console(enabled=True, total_steps=100, epochs=None).steps_done(25, 0, 0.5, 800)
    assert log.getvalue().startswith("dtj: step 25/100  loss 0.5  ")


def test_only_the_chief_speaks():
    with terminal() as shown:
        other = Console(enabled=False, total_steps=2, epochs=None)
        other.steps_done(1, 0, 1.0, 8)
        other.epoch_ended(1, 0, {})
        Console(enabled=True, total_steps=2, epochs=None).print("the only word")
    assert shown == [f"{BEGINNING_OF_LINE}dtj: the only word\r\n"]
