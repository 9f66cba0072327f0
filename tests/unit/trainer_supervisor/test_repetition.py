"""What is computed once while TensorFlow is imported."""

import inspect
import typing
from typing import Any

import pytest

from dtj_trainer.supervisor import repetition
from dtj_trainer.supervisor.repetition import unrepeated


def function(first: int, *, second: str = "") -> None: ...


def test_types_named_in_equal_strings_are_compiled_once(monkeypatch: pytest.MonkeyPatch):
    compiled: list[str] = []

    def counting(text: str, name: str, mode: str) -> Any:
        compiled.append(text)
        return compile(text, name, mode)

    monkeypatch.setattr(repetition, "compile", counting, raising=False)
    with unrepeated():
        references = [typing.ForwardRef(name) for name in ("float32", "int64", "float32")]
    assert compiled == ["float32", "int64"]
    assert references[0] == references[2] != references[1]


def test_a_function_s_signature_is_what_it_is_and_computed_once():
    plain, bound = inspect.signature(function), inspect.getfullargspec(function)
    with unrepeated():
        assert inspect.signature(function) == plain
        assert inspect.signature(function) is inspect.signature(function)
        assert inspect.getfullargspec(function) == bound


def test_who_asks_for_the_signature_and_who_asks_for_the_arguments_share_the_answer(monkeypatch: pytest.MonkeyPatch):
    asked: list[object] = []
    answer = vars(inspect)[repetition.SIGNATURE]

    def counting(kind: type, function: Any, **options: Any) -> Any:
        asked.append(function)
        return answer(kind, function, **options)

    monkeypatch.setattr(inspect, repetition.SIGNATURE, counting)
    with unrepeated():
        inspect.signature(function)
        inspect.getfullargspec(function)
    assert asked == [function]


def test_annotations_are_evaluated_when_asked_for():
    def late(first: "int") -> None: ...

    with unrepeated():
        assert inspect.signature(late).parameters["first"].annotation == "int"
        assert inspect.signature(late, eval_str=True).parameters["first"].annotation is int


def test_afterwards_all_is_as_before():
    before = {**vars(inspect)}
    with pytest.raises(ZeroDivisionError), unrepeated():
        _ = 1 / 0
    assert vars(inspect) == before
    assert "compile" not in vars(typing)
