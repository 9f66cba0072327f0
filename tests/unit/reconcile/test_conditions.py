"""Which file owns which condition, and how conditions change."""

from __future__ import annotations

import ast
from datetime import timedelta
from pathlib import Path

from dtj_operator.api.enums import ConditionType, Reason
from dtj_operator.reconcile import policies
from dtj_operator.reconcile.state.conditions import Conditions
from tests.support.job_builder import NOW

OWNERS = {
    "CREATED": {"created"},
    "INVALID": {"validation"},
    "SUSPENDED": {"suspend"},
    "RUNNING": {"running"},
    "RESTARTING": {"failure_policy", "scaling", "running"},
    "SUCCEEDED": {"completion"},
    "FAILED": {"completion"},
}
WRITERS = {"set_true", "set_false", "finish_job"}
"""Calls that change the condition that they are given."""


def written(file: Path) -> set[str]:
    calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    return {
        argument.attr
        for call in calls
        if ast.unparse(call.func).rpartition(".")[2] in WRITERS
        for argument in call.args
        if isinstance(argument, ast.Attribute) and ast.unparse(argument.value) == "ConditionType"
    }


def test_every_condition_is_written_by_its_owners_alone():
    files = Path(str(policies.__file__)).parent.glob("*.py")
    found = {(condition, file.stem) for file in files for condition in written(file)}
    assert found == {(condition, owner) for condition, owners in OWNERS.items() for owner in owners}
    assert set(OWNERS) == {kind.name for kind in ConditionType}


def running_since(seconds: float) -> Conditions:
    before = Conditions((), NOW - timedelta(seconds=seconds))
    before.set_true(ConditionType.RUNNING, Reason.ALL_READY, "All pods are ready.")
    return Conditions(before.in_order(), NOW)


def test_a_transition_time_changes_with_the_status_alone():
    conditions = running_since(60)
    assert not conditions.set_true(ConditionType.RUNNING, Reason.ALL_READY, "Another message.")
    condition = conditions.get(ConditionType.RUNNING)
    assert condition is not None
    assert condition.message == "Another message."
    assert condition.last_transition_time == NOW - timedelta(seconds=60)
    assert not conditions.set_true(ConditionType.RUNNING, Reason.ALL_READY, "Another message.")
    assert conditions.get(ConditionType.RUNNING) is condition, "the same object: nothing has changed"
    assert conditions.set_false(ConditionType.RUNNING, Reason.NOT_READY, "One is not.")
    assert [c.last_transition_time for c in conditions.in_order()] == [NOW]


def test_halting_ends_restarting_only_where_it_is_true_and_finishing_always():
    suspended, finished = running_since(60), running_since(60)
    suspended.halt(Reason.SUSPENDED, "The job is suspended.")
    finished.finish(ConditionType.FAILED, Reason.DEADLINE_EXCEEDED, "It ran too long.")
    assert suspended.get(ConditionType.RESTARTING) is None
    restarting = finished.get(ConditionType.RESTARTING)
    assert restarting is not None
    assert not restarting.holds
    assert finished.finished
