"""The settings of `dtj-run`: flags and variables."""

from pathlib import Path

import pytest

from dtj_trainer.errors import PreflightFailed
from dtj_trainer.supervisor.settings import parse, termination_log


def test_flags_before_the_program_are_ours_and_all_after_it_are_the_programs():
    got = parse(["--port", "9500", "--memory-growth", "train.py", "--port", "1"], {})
    assert got.settings.port == 9500
    assert got.settings.memory_growth
    assert got.program is not None
    assert (got.program.name, got.program.arguments) == ("train.py", ("--port", "1"))


def test_a_module_and_the_double_dash():
    assert parse(["-m", "pkg.train", "-x"], {}).program == parse(["--", "-m", "pkg.train", "-x"], {}).program


def test_a_flag_wins_over_its_variable():
    environment = {"DTJ_RESTARTS": "7", "DTJ_START_SECONDS": "2"}
    settings = parse(["--restarts", "1", "x.py"], environment).settings
    assert (settings.restarts, settings.start_seconds) == (1, 2.0)


def test_a_service_called_dtj_does_not_set_the_port():
    assert parse(["x.py"], {"DTJ_PORT": "tcp://10.0.0.1:80"}).settings.port == 9401


@pytest.mark.parametrize("words", [["--bogus", "x.py"], ["--port", "0", "x.py"], ["--restarts"], ["-m"]])
def test_a_wrong_flag_is_one_sentence(words: list[str]):
    with pytest.raises(PreflightFailed):
        parse(words, {})


def test_the_termination_message_has_its_place_also_where_other_flags_are_wrong():
    assert termination_log(["--bogus", "--termination-log=a", "x.py", "--termination-log", "its"], {}) == Path("a")
    assert termination_log(["--termination-log", "b", "--port"], {"DTJ_TERMINATION_LOG": "c"}) == Path("b")
    assert termination_log(["x.py"], {"DTJ_TERMINATION_LOG": "c"}) == Path("c")
    assert termination_log(["x.py", "--termination-log", "its"], {}) is None
