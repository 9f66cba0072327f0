"""Reads YAML as Kubernetes does, and JSON; writes YAML that every reader understands alike."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import yaml

TAG = "tag:yaml.org,2002:"
INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$")
FLOAT = re.compile(
    r"[-+]?(?:(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+|\.(?:inf|Inf|INF))$"
    r"|\.(?:nan|NaN|NAN)$"
)
NO_PLAIN_STRING = re.compile(r"(?:[-+.0-9][-+.:,_0-9a-fA-FxXoO]*|y|Y|n|N)$")
"""Strings that some reader of YAML takes for a number, a time or a boolean unless they are in quotes."""


class ManifestError(Exception):
    """A text that is not valid YAML or JSON; the message is a sentence."""

    def __init__(self, message: str, line: int) -> None:
        """Take the line of the fault, counted from 1."""
        super().__init__(message)
        self.line = line


def parse(text: str) -> Iterator[tuple[int, Any]]:
    """Yield the documents of a text, each with its first line. Raises ManifestError."""
    if text.lstrip().startswith(("{", "[")):
        try:
            found = json.loads(text, object_pairs_hook=_object)
        except (ValueError, RecursionError):
            pass  # YAML may begin like that too, and its reader tells the line
        else:
            yield 1, found
            return
    try:
        loader = _Loader(text)
        while loader.check_node() and (node := loader.get_node()) is not None:
            document = loader.construct_document(node)
            if document is not None:
                yield node.start_mark.line + 1, document
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line = mark.line + 1 if mark else 1
        raise ManifestError(f"this is not valid YAML: {problem.problem or problem.context}", line) from problem
    except RecursionError as problem:
        raise ManifestError("this is nested too deeply: no manifest needs so many levels", 1) from problem
    except yaml.reader.ReaderError as problem:
        line = text.count("\n", 0, problem.position) + 1
        raise ManifestError(f"this is not valid YAML: it has the character {problem.character:#x}", line) from problem


def dump(document: Any) -> str:
    """Return a document as YAML."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=sys.maxsize)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


class _Loader(yaml.SafeLoader):
    """Knows what JSON can hold: no times and no numbers to base 60, and each key once in an object."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML adds to it, and its types call it an instance's
    yaml_constructors: ClassVar[dict[str | None, Any]] = {}

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != f"{TAG}merge":
                if key.value in seen:
                    raise yaml.composer.ComposerError(None, None, f"the key {key.value} is there twice", key.start_mark)
                seen.add(key.value)
        return node


class _Dumper(yaml.SafeDumper):
    """Writes aliases out, quotes what may be misread, and keeps the lines of a text."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True

    def represent_string(self, text: str) -> yaml.ScalarNode:
        style = "|" if "\n" in text else '"' if NO_PLAIN_STRING.match(text) else None
        return self.represent_scalar(f"{TAG}str", text, style=style)


def _integer(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node).replace("_", "")
    return int(re.sub(r"^([-+]?)0(?=[0-7])", r"\g<1>0o", text), 0)


def _float(loader: _Loader, node: yaml.ScalarNode) -> float:
    return float(re.sub(r"\.(inf|nan)$", r"\1", loader.construct_scalar(node).replace("_", "").lower()))


def _told(construct: Callable[[Any, Any], Any], kind: str) -> Callable[[Any, Any], Any]:
    """Return the constructor, with an error that has a line."""

    def constructor(loader: Any, node: Any) -> Any:
        try:
            return construct(loader, node)
        except (KeyError, ValueError):
            raise yaml.constructor.ConstructorError(None, None, f"{node.value} is no {kind}", node.start_mark) from None

    return constructor


for _kind, _pattern, _first in (
    (
        "bool",
        re.compile(r"(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$"),
        "yYnNtTfFoO",
    ),
    ("null", re.compile(r"(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("merge", re.compile(r"<<$"), "<"),
    ("int", INTEGER, "-+0123456789"),
    ("float", FLOAT, "-+.0123456789"),
):
    _Loader.add_implicit_resolver(f"{TAG}{_kind}", _pattern, list(_first))
for _kind, _construct in (
    ("null", yaml.SafeLoader.construct_yaml_null),
    ("bool", yaml.SafeLoader.construct_yaml_bool),
    ("int", _integer),
    ("float", _float),
    ("str", yaml.SafeLoader.construct_yaml_str),
    ("seq", yaml.SafeLoader.construct_yaml_seq),
    ("map", yaml.SafeLoader.construct_yaml_map),
):
    _Loader.add_constructor(f"{TAG}{_kind}", _told(_construct, _kind))
_Loader.yaml_constructors[None] = yaml.SafeLoader.construct_undefined
_Dumper.add_representer(str, _Dumper.represent_string)
