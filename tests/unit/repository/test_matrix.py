"""`make matrix`: which Pythons, Keras versions and tests it takes, and what it says of those that it does not."""

import sys
from pathlib import Path

from tools import matrix, stages
from tools.matrix import Cell, Python
from tools.stages import Counts, Outcome, Stage

PYTHON = Python(Path("/usr/bin/python3.12"), "3.12.1")
VERSIONS = {"keras": "3.12.0", "tensorflow-cpu": "2.21.0", "numpy": "2.4.6"}


def test_the_pythons_are_those_that_pyproject_allows_and_each_has_its_classifier():
    named = [line.rpartition(" ")[2] for line in matrix.PROJECT["classifiers"] if ":: Python :: 3." in line]
    assert matrix.minors() == named == ["3.11", "3.12", "3.13"]


def test_the_oldest_keras_is_the_lower_bound_of_the_range():
    assert matrix.oldest_keras() in matrix.keras_range()
    assert f">={matrix.oldest_keras()}" in str(matrix.keras_range())


def test_a_given_python_is_taken_and_each_version_that_is_not_given_is_named():
    found, skipped = matrix.find([sys.executable])
    assert [(python.path, python.minor) for python in found] == [(Path(sys.executable), "3.11")]
    assert skipped == ["Python 3.12 is skipped: not among PYTHONS", "Python 3.13 is skipped: not among PYTHONS"]


def test_a_given_python_that_cannot_be_used_is_skipped_with_a_reason(tmp_path):
    (tmp_path / "python3.9").write_text("#!/bin/sh\necho 3.9.2\n")
    (tmp_path / "python3.12").write_text("#!/bin/sh\necho No module named ensurepip >&2; exit 1\n")
    for path in tmp_path.iterdir():
        path.chmod(0o755)
    given = [str(tmp_path / name) for name in ("python3.9", "python3.12", "python3.13")]
    found, skipped = matrix.find(given)
    assert found == []
    assert skipped[:3] == [
        f"{given[0]} is skipped: Python 3.9.2 is not {matrix.PROJECT['requires-python']}",
        f"{given[1]} is skipped: {given[1]} cannot create environments (No module named ensurepip)",
        f"{given[2]} is skipped: {given[2]} cannot be run (No such file or directory)",
    ]


def test_a_version_that_is_not_on_the_machine_is_skipped_with_the_way_out(monkeypatch):
    monkeypatch.setattr(matrix, "candidates", lambda _: iter(()))
    found, skipped = matrix.find([])
    assert found == []
    expected = "Python 3.12 is skipped: it is not on this machine; PYTHONS=<path of python3.12> names another"
    assert skipped[1] == expected


def test_the_quick_tests_are_the_trainers_and_none_of_the_operators():
    files = matrix.tests()
    assert "tests/unit/storage/test_folders.py" in files
    assert any(file.startswith("tests/trainer/") for file in files)
    assert not any(file.startswith(("tests/unit/reconcile/", "tests/unit/repository/")) for file in files)


def test_the_table_has_a_row_for_each_run_and_says_why_one_has_no_result():
    ended = Outcome(Stage("any", ()), ok=True, seconds=61.2, counts=Counts(7, 0, 1))
    cells = [Cell(PYTHON, "3.12", VERSIONS, ended), Cell(PYTHON, "3.15.1", {}, why="no environment")]
    assert matrix.table(cells).splitlines()[1:] == [
        "3.12.1   3.12.0   2.21.0      2.4.6    ok             61  7 passed, 0 failed, 1 skipped",
        "3.12.1   3.15.1   -           -        FAILED          -  no environment",
    ]


def test_make_test_does_not_run_it():
    assert not any("tools.matrix" in stage.command for stage in stages.TEST)
