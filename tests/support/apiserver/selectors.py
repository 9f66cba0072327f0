"""Label and field selectors, as query parameters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from tests.support.apiserver.errors import bad_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.apiserver.kinds import Kind, Object

_SET: Final = re.compile(r"^(?P<key>\S+)\s+(?P<operator>in|notin)\s+\((?P<values>[^)]*)\)$")
_EQUAL: Final = re.compile(r"^(?P<key>[^=!\s]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^=!\s]*)$")
_COMMA_OUTSIDE_PARENTHESES: Final = re.compile(r",(?![^(]*\))")

_FIELDS: Final = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
    ),
    "events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "reason",
        "type",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "services": ("spec.clusterIP", "spec.type"),
}


def label_selector(text: str) -> Callable[[Object], bool]:
    """Return a predicate over objects; raises a 400 for an invalid selector."""
    tests = [_requirement(part.strip()) for part in _COMMA_OUTSIDE_PARENTHESES.split(text) if part.strip()]

    def matches(obj: Object) -> bool:
        labels: dict[str, str] = obj["metadata"].get("labels") or {}
        return all(test(labels) for test in tests)

    return matches


def _requirement(text: str) -> Callable[[dict[str, str]], bool]:
    if found := _SET.match(text):
        key = found["key"]
        values = {value.strip() for value in found["values"].split(",")}
        if found["operator"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.match(text):
        key, value = found["key"], found["value"]
        if found["operator"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if re.fullmatch(r"![^\s=!,]+", text):
        return lambda labels: text[1:] not in labels
    if re.fullmatch(r"[^\s=!,]+", text):
        return lambda labels: text in labels
    raise bad_request(f"unable to parse requirement: {text!r}")


def field_selector(kind: Kind, text: str) -> Callable[[Object], bool]:
    """Return a predicate over objects; accepts only the fields that the real server knows."""
    known = ("metadata.name", "metadata.namespace", *_FIELDS.get(kind.plural, ()))
    tests: list[tuple[str, str, bool]] = []
    for part in filter(None, text.split(",")):
        found = _EQUAL.match(part.strip())
        if found is None:
            raise bad_request(f"invalid selector: {part!r}; can't understand {part!r}")
        if found["key"] not in known:
            raise bad_request(f"field label not supported: {found['key']}")
        tests.append((found["key"], found["value"], found["operator"] != "!="))

    def matches(obj: Object) -> bool:
        return all((_field(obj, path) == value) is wanted for path, value, wanted in tests)

    return matches


def _field(obj: Object, path: str) -> str:
    value: Any = obj
    for part in path.split("."):
        value = (value or {}).get(part)
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def selector(kind: Kind, labels: str, fields: str) -> Callable[[Object], bool]:
    """Return both selectors as one predicate."""
    if not labels and not fields:
        return lambda _: True
    by_label = label_selector(labels)
    by_field = field_selector(kind, fields)
    return lambda obj: by_label(obj) and by_field(obj)
