"""What Python computes again and again, or checks in vain, while TensorFlow is imported: once, and not at all.

TensorFlow's operations name 18,000 types in strings, a hundred different ones, and `typing` compiles and compares each
of them; each decorator of an operation asks for the operation's signature, and describes another; each gradient is
registered with the source lines of who registers it. An import takes a quarter longer with all that.
"""

from __future__ import annotations

import functools
import inspect
import sys
import traceback
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, FunctionType
from typing import Any, Final

REPLACED: Final = (
    (typing, "compile", lambda: functools.cache(compile)),
    (typing, "_type_check", lambda: _at_once(vars(typing)["_type_check"])),
    (inspect, "_signature_from_function", lambda: _once_a_function(vars(inspect)["_signature_from_function"])),
    (inspect, "getfullargspec", lambda: _read_from_code(inspect.getfullargspec)),
    (inspect.Parameter, "__init__", lambda: _unchecked(inspect.Parameter.__init__)),
    (traceback, "extract_stack", lambda: _without_lines),
)
"""Where a function stands, its name in Python 3.11, and what makes the one that is called instead."""


@contextmanager
def unrepeated() -> Iterator[None]:
    """Herein equal strings are compiled once for `typing`, a function's signature is computed once, parameters are not
    checked, and a stack's lines are read when they are asked for. All give what they gave; TensorFlow keeps
    `getfullargspec` as it finds it.
    """
    before = [(place, name, vars(place).get(name)) for place, name, _ in REPLACED]
    for place, name, make in REPLACED:
        setattr(place, name, make())
    try:
        yield
    finally:
        for place, name, value in before:
            if value is None:
                delattr(place, name)
            else:
                setattr(place, name, value)


def _at_once(check: Callable[..., Any]) -> Callable[..., Any]:
    def checking(kind: Any, message: str, *more: Any, **options: Any) -> Any:
        if type(kind) is str and not more and not options:
            return typing.ForwardRef(kind)  # what comes of it, without comparing it with what no string is
        return check(kind, message, *more, **options)

    return checking


def _once_a_function(signature: Callable[..., inspect.Signature]) -> Callable[..., inspect.Signature]:
    known: dict[tuple[Any, ...], inspect.Signature] = {}

    def remembering(kind: type, function: Callable[..., Any], **options: Any) -> inspect.Signature:
        from_text = getattr(function, "__text_signature__", None) is not None  # others are the same with and without
        question = (kind, function, from_text and options.get("skip_bound_arg", True))
        if options.get("eval_str"):
            return signature(kind, function, **options)
        if question not in known:
            known[question] = signature(kind, function, **options)
        return known[question]

    return remembering


def _read_from_code(arguments: Callable[..., inspect.FullArgSpec]) -> Callable[..., inspect.FullArgSpec]:
    def reading(function: Callable[..., Any]) -> inspect.FullArgSpec:
        if type(function) is not FunctionType or function.__dict__ or _has_odd_default(function):
            return arguments(function)
        code = function.__code__
        names = iter(code.co_varnames)
        positional = [next(names) for _ in range(code.co_argcount)]
        by_name = [next(names) for _ in range(code.co_kwonlyargcount)]
        return inspect.FullArgSpec(
            args=positional,
            varargs=next(names) if code.co_flags & inspect.CO_VARARGS else None,
            varkw=next(names) if code.co_flags & inspect.CO_VARKEYWORDS else None,
            defaults=function.__defaults__ or None,
            kwonlyargs=by_name,
            kwonlydefaults=dict(function.__kwdefaults__ or {}) or None,
            annotations=dict(function.__annotations__),
        )

    return reading


def _has_odd_default(function: FunctionType) -> bool:
    """Whether one is what stands for none."""
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    return any(value is inspect.Parameter.empty for value in defaults)


def _unchecked(initialize: Callable[..., None]) -> Callable[..., None]:
    kinds = type(inspect.Parameter.POSITIONAL_ONLY)
    empty = inspect.Parameter.empty

    def accepting(self: Any, name: str, kind: Any, *, default: Any = empty, annotation: Any = empty) -> None:
        if type(kind) is not kinds or name[:1] == ".":  # that of a comprehension
            initialize(self, name, kind, default=default, annotation=annotation)
            return
        self._name, self._kind, self._default, self._annotation = name, kind, default, annotation

    return accepting


def _without_lines(f: FrameType | None = None, limit: int | None = None) -> traceback.StackSummary:
    frames = traceback.walk_stack(f or sys._getframe(1))  # noqa: SLF001 - as extract_stack does
    stack = traceback.StackSummary.extract(frames, limit=limit, lookup_lines=False)
    stack.reverse()
    return stack
