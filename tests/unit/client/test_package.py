"""`import dtj`: what it offers, and what it does not import."""

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, assert_type

import pytest

import dtj
import dtj_trainer
from dtj_trainer import data, errors
from dtj_trainer.contract import EXIT_PREEMPTED
from dtj_trainer.exit_status import exit_status_of

if TYPE_CHECKING:

    def see_types(pipeline: dtj.data.Pipeline, error: dtj.errors.UserError) -> None:
        assert_type(pipeline, data.Pipeline)
        assert_type(error, errors.UserError)


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def imported_by(program: str) -> set[str]:
    """First names of the modules that are not Python's own."""
    shown = "import sys; print(*{name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names)"
    bare, loaded = (set(run(f"{line}\n{shown}").stdout.split()) for line in ("", program))
    return loaded - bare - {"__mp_main__"}  # what multiprocessing calls the program itself


def test_every_name_of_the_public_package_is_that_of_the_trainer():
    inside = {name: getattr(dtj_trainer, name) for name in dtj.__all__ if name not in {"data", "errors"}}
    assert {name: getattr(dtj, name) for name in inside} == inside
    assert set(dtj.__all__) <= set(dir(dtj))


def test_its_data_and_errors_are_those_of_the_trainer():
    assert {name: getattr(dtj.data, name) for name in dtj.data.__all__} == {
        name: getattr(data, name) for name in data.__all__
    }
    assert {name: getattr(dtj.errors, name) for name in dtj.errors.__all__} == {
        name: getattr(errors, name) for name in errors.__all__
    }


def test_a_name_that_it_does_not_have_is_told_with_the_line_that_asked_for_it():
    with pytest.raises(AttributeError, match="module 'dtj' has no attribute 'fitt'") as raised:
        dtj.fitt  # noqa: B018 - asking for it is the test
    assert f"({Path(__file__).name}, line " in exit_status_of(raised.value).message


@pytest.mark.parametrize("program", ["import dtj", "import dtj.data", "import dtj; dtj.data; dir(dtj.data)"])
def test_importing_it_imports_nothing_but_pythons_own(program):
    assert imported_by(program) == {"dtj"}


@pytest.mark.parametrize(("program", "also"), [
    ("import dtj; dtj.errors", set()),
    ("from dtj.data import Pipeline, csv, numpy, parquet, tfrecord", {"numpy"}),
    ("from dtj import Session, TrainContext, all_reduce, evaluate, fit, init, predict, session, train", {"numpy"}),
])  # fmt: skip
def test_its_names_import_no_tensorflow_and_nothing_that_is_optional(program, also):
    assert imported_by(program) == {"dtj", "dtj_trainer"} | also


def test_the_trainer_can_still_be_imported_under_its_name():
    program = "import dtj_trainer as dtj; print(dtj.fit.__name__, dtj.data.Pipeline.__name__)"
    assert run(program).stdout.split() == ["fit", "Pipeline"]


def test_an_error_that_nobody_catches_is_one_line_and_its_exit_code():
    ended = run("import dtj; raise dtj.errors.Preempted('asked to\\nleave')")
    assert (ended.returncode, ended.stderr) == (EXIT_PREEMPTED, "dtj: asked to leave\n")
