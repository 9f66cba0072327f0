"""What Python computes again and again while TensorFlow is imported, computed once.

TensorFlow's operations name 18,000 types in strings, a hundred different ones, and `typing` compiles each of them; each
decorator of an operation asks for the operation's signature. Without both an import takes a tenth longer.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

SIGNATURE: Final = "_signature_from_function"
"""What all questions for the signature of a Python function come down to, in Python 3.11."""


@contextmanager
def unrepeated() -> Iterator[None]:
    """Herein equal strings are compiled once for `typing`, and each function's signature is computed once."""
    types, functions = vars(typing), vars(inspect)
    signature = functions[SIGNATURE]
    types["compile"] = functools.cache(compile)
    functions[SIGNATURE] = _once(signature)
    try:
        yield
    finally:
        functions[SIGNATURE] = signature
        del types["compile"]


def _once(signature: Callable[..., inspect.Signature]) -> Callable[..., inspect.Signature]:
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
