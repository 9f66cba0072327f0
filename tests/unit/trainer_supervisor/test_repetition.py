"""What is computed once, or not at all, while TensorFlow is imported."""

import inspect
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, TypeVar

import pytest

from dtj_trainer.supervisor import repetition
from dtj_trainer.supervisor.repetition import unrepeated


def function(first: int, *, second: str = "") -> None: ...


def functions() -> Iterator[types.FunctionType]:
    """Thousands, of all forms: those of every module that is imported here."""
    for module in list(sys.modules.values()):
        for value in list(vars(module).values()):
            for found in (value, *vars(value).values()) if inspect.isclass(value) else (value,):
                if inspect.isfunction(found):
                    yield found


def answer(ask: Callable[[Any], object], found: types.FunctionType) -> object:
    try:
        return ask(found)
    except (TypeError, ValueError) as error:
        return str(error)


@pytest.mark.parametrize("name", ["signature", "getfullargspec"])
def test_what_is_said_of_a_function_is_what_is_said_else(name):
    asked = list(islice(functions(), 3000))
    assert len(asked) == 3000
    plain = [answer(getattr(inspect, name), found) for found in asked]
    with unrepeated():
        odd = [found for found, said in zip(asked, plain, strict=True) if answer(getattr(inspect, name), found) != said]
    assert odd == []


def test_types_named_in_equal_strings_are_compiled_once(monkeypatch: pytest.MonkeyPatch):
    compiled: list[str] = []

    def counting(text: str, name: str, mode: str) -> Any:
        compiled.append(text)
        return compile(text, name, mode)

    monkeypatch.setattr(repetition, "compile", counting, raising=False)
    names = ("float32", "int64")
    plain = TypeVar("plain", *names).__constraints__
    with unrepeated():
        kinds = [TypeVar("kinds", *names).__constraints__ for _ in range(3)]
    assert kinds == [plain] * 3
    assert kinds[0][0] is not kinds[1][0]  # each keeps what it turns out to name where it is asked
    assert tuple(compiled) == names


def test_a_string_that_names_no_type_is_refused_each_time():
    with unrepeated():
        for _ in range(2):
            with pytest.raises(SyntaxError, match="must be an expression"):
                TypeVar("wrong", "a type", "int64")  # noqa: F722, F821


def test_a_signature_is_computed_once():
    with unrepeated():
        assert inspect.signature(function) is inspect.signature(function)


def test_annotations_are_evaluated_when_asked_for():
    def late(first: "int") -> None: ...

    with unrepeated():
        assert inspect.signature(late).parameters["first"].annotation == "int"
        assert inspect.signature(late, eval_str=True).parameters["first"].annotation is int


def test_a_parameter_of_no_kind_is_refused():
    with unrepeated(), pytest.raises(ValueError, match="not a valid"):
        inspect.Parameter("name", 7)  # type: ignore[arg-type]


def test_a_stack_has_its_lines_when_they_are_asked_for():
    with unrepeated():
        stack = traceback.extract_stack(limit=2)
        here = inspect.currentframe()
    assert here is not None
    assert [frame.name for frame in stack][-1] == here.f_code.co_name
    assert stack[-1].line == "stack = traceback.extract_stack(limit=2)"
    assert len(stack) == 2


def test_afterwards_all_is_as_before():
    before = [dict(vars(place)) for place, _, _ in repetition.REPLACED]
    with pytest.raises(ZeroDivisionError), unrepeated():
        _ = 1 / 0
    assert [dict(vars(place)) for place, _, _ in repetition.REPLACED] == before
