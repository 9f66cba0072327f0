"""The stages of `make check` and `make test`: every stage runs, and the last line has the right counts."""

import sys

import pytest

from tools import stages
from tools.stages import Counts, Outcome, Stage


def outcome(name, *, ok=True, counts=None):
    return Outcome(Stage(name, ()), ok, 1.0, counts)


def test_a_failed_stage_does_not_stop_those_after_it_and_fails_the_whole(capsys):
    ended = {"lint": outcome("lint", ok=False), "quick": outcome("quick", counts=Counts(7, 0, 2))}
    code = stages.run_plan([Stage("lint", ()), Stage("quick", ())], lambda stage: ended[stage.name])
    said = capsys.readouterr().out
    assert code == 1
    assert "lint       FAILED" in said
    assert said.splitlines()[-1] == "7 passed, 0 failed, 2 skipped"


def test_the_last_line_adds_up_the_tests_of_all_stages(capsys):
    stages.run_plan(
        [Stage("quick", ()), Stage("e2e", ())],
        lambda stage: outcome(stage.name, counts=Counts(3, 1, 0) if stage.name == "e2e" else Counts(10)),
    )
    assert capsys.readouterr().out.splitlines()[-1] == "13 passed, 1 failed"


def test_a_checkout_that_cannot_be_written_is_named_before_any_stage(tmp_path, monkeypatch, capsys):
    (tmp_path / "build").touch()
    monkeypatch.setattr(stages, "RESULTS", tmp_path / "build" / "results")
    assert stages.run_plan([Stage("lint", ())], lambda _: pytest.fail("a stage runs")) == 1
    assert f"{tmp_path}/build/results cannot be written (Not a directory)" in capsys.readouterr().err


def test_a_report_of_pytest_is_counted(tmp_path):
    report = tmp_path / "junit.xml"
    report.write_text('<testsuites><testsuite tests="9" errors="1" failures="2" skipped="3"/></testsuites>')
    assert stages.counts(report) == Counts(passed=3, failed=3, skipped=3)


def test_what_failed_is_named_with_what_it_said_right_before_the_last_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(stages, "RESULTS", tmp_path)
    program = tmp_path / "test_two.py"
    program.write_text("def test_well(): pass\n\ndef test_ill():\n    assert 1 + 1 == 3, 'a sum'\n")
    report = tmp_path / "junit-two.xml"
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", str(program))
    assert stages.run_plan([Stage("two", command, tests=True)]) == 1
    *_, failed, last = capsys.readouterr().out.splitlines()
    assert failed.startswith("FAILED ")
    assert "test_two::test_ill (0 s): AssertionError: a sum" in failed
    assert last == "1 passed, 1 failed"


@pytest.mark.parametrize(("code", "ok"), [("raise SystemExit(0)", True), ("raise SystemExit(3)", False)])
def test_a_stage_without_tests_is_judged_by_its_exit_code(code, ok):
    assert stages.run(Stage("any", (sys.executable, "-c", code))).ok is ok


def test_a_pytest_stage_that_ran_no_test_has_failed(tmp_path, monkeypatch):
    monkeypatch.setattr(stages, "RESULTS", tmp_path)
    (tmp_path / "junit-none.xml").write_text("")
    assert not stages.run(Stage("none", (sys.executable, "-c", "pass"), tests=True)).ok


def test_check_is_the_first_part_of_test_and_every_marker_has_its_stage():
    assert stages.TEST[: len(stages.CHECK)] == stages.CHECK
    asked = " ".join(" ".join(stage.command) for stage in stages.TEST)
    for marker in ("contract", "trainer", "e2e"):
        assert f"-m {marker}" in asked


@pytest.mark.parametrize(("plan", "users"), [("test", {"operator", "trainer", "e2e"}), ("e2e", {"e2e"})])
def test_what_has_to_be_built_is_built_before_tests_whose_time_is_limited(plan, users):
    names = [stage.name for stage in stages.PLANS[plan]]
    assert users <= set(names[names.index("build") + 1 :])
