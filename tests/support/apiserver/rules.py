"""The CEL rules of a CRD (x-kubernetes-validations), evaluated by CEL's own C++ implementation.

As in the real server a rule sees the value where it stands as `self` and the former value as
`oldSelf`; a rule that speaks of oldSelf is skipped where there is none, on a create and in lists.
A rule that does not, and whose value has not changed, is not asked again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.apiserver.kinds import Object

TRANSITION = re.compile(r"\boldSelf\b")


@cache
def _environment() -> cel.Env:
    return cel.NewEnv(
        variables={"self": cel.Type.DYN, "oldSelf": cel.Type.DYN},
        extensions=[ext_optional.ExtOptional(), ext_strings.ExtStrings()],
    )


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of x-kubernetes-validations."""

    program: cel.Expression
    message: str
    field: str
    """fieldPath, relative to where the rule stands."""
    transition: bool
    words: cel.Expression | None
    """messageExpression, which wins over the message."""

    @classmethod
    def of(cls, entry: Object) -> Rule:
        """Compile an entry; an invalid expression raises here, as a real server refuses the CRD."""
        text, words = entry["rule"], entry.get("messageExpression")
        return cls(
            _environment().compile(text),
            entry["message"],
            entry.get("fieldPath", ""),
            bool(TRANSITION.search(text)),
            _environment().compile(words) if words else None,
        )

    def broken(self, values: cel.Activation) -> str:
        """What the rule says about these values; nothing if it holds."""
        answer = self.program.eval(values)
        if answer.type() == cel.Type.ERROR:
            return f"rule evaluation error: {answer.value()} evaluating rule: {self.message}"
        if answer.value() is True:
            return ""
        return str(self.words.eval(values).value()).strip() if self.words else self.message


@dataclass(frozen=True, slots=True)
class ValidationRules:
    """The validation rules at one node of a schema and below it."""

    schema: Object
    rules: tuple[Rule, ...] = ()
    properties: dict[str, ValidationRules] = field(default_factory=dict)
    others: ValidationRules | None = None
    """Of the values of a map."""
    items: ValidationRules | None = None
    """Of the items of a list."""

    @classmethod
    def of(cls, schema: Object) -> ValidationRules:
        """The rules found in a schema; places without any are left out."""
        inner = {name: cls.of(child) for name, child in schema.get("properties", {}).items()}
        return cls(
            schema,
            tuple(Rule.of(entry) for entry in schema.get("x-kubernetes-validations", ())),
            {name: book for name, book in inner.items() if book},
            cls._within(schema.get("additionalProperties")),
            cls._within(schema.get("items")),
        )

    @classmethod
    def _within(cls, schema: Any) -> ValidationRules | None:
        return (cls.of(schema) or None) if isinstance(schema, dict) else None

    def __bool__(self) -> bool:
        """Whether there is any rule."""
        return bool(self.rules or self.properties or self.others or self.items)

    def broken(self, new: Any, old: Any, path: str = "") -> Iterator[tuple[str, str]]:
        """Pairs of field and message for every rule that does not hold; `old` is None where there was no value."""
        yield from self._broken_here(new, old, path)
        if isinstance(new, dict):
            before = old if isinstance(old, dict) else {}
            for name, value in new.items():
                book = self.properties.get(name, self.others)
                if book is not None:
                    yield from book.broken(value, before.get(name), f"{path}.{name}".lstrip("."))
        elif isinstance(new, list) and self.items is not None and new != old:
            for at, item in enumerate(new):
                yield from self.items.broken(item, None, f"{path}[{at}]")

    def _broken_here(self, new: Any, old: Any, path: str) -> Iterator[tuple[str, str]]:
        unchanged = old is not None and new == old
        asked = [rule for rule in self.rules if (old is not None if rule.transition else not unchanged)]
        if not asked:
            return
        before = {} if old is None else {"oldSelf": _as_rules_see_it(old, new, self.schema)}
        values = _environment().Activation({"self": new, **before})
        for rule in asked:
            if said := rule.broken(values):
                yield f"{path}{rule.field}".lstrip(".") or "<nil>", f"Invalid value: {said}"


def _as_rules_see_it(old: Any, new: Any, schema: Object) -> Any:
    """The old value, with the new one in every place where the server's `==` sees no difference."""
    if _same(new, old, schema):
        return new
    if isinstance(old, dict) and isinstance(new, dict):
        return {
            name: _as_rules_see_it(value, new[name], _schema_of(schema, name) or {}) if name in new else value
            for name, value in old.items()
        }
    return old


def _same(new: Any, old: Any, schema: Object) -> bool:
    """`new == old && old == new` as the server evaluates it: objects are of one size, what the schema declares is
    equal, and an undeclared key is looked at only where both have it. So one of those may stand in for another.

    One way alone the server's `==` also overlooks declared keys that only its right side has; not so here.
    """
    if new is old:
        return True
    if isinstance(new, dict) and isinstance(old, dict) and schema.get("type") == "object":
        return len(new) == len(old) and all(
            name in new and name in old and _same(new[name], old[name], inner)
            if (inner := _schema_of(schema, name)) is not None
            else name not in new or name not in old or new[name] == old[name]
            for name in new.keys() | old.keys()
        )
    if isinstance(new, list) and isinstance(old, list) and isinstance(schema.get("items"), dict):
        return len(new) == len(old) and all(_same(a, b, schema["items"]) for a, b in zip(new, old, strict=True))
    return bool(new == old)


def _schema_of(schema: Object, name: str) -> Object | None:
    others = schema.get("additionalProperties")
    found: Object | None = schema.get("properties", {}).get(name, others if isinstance(others, dict) else None)
    return found
