"""The project's modules, classes and functions have the field's names, not the private words they once had."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
REPLACED = """
    shelf store observer recorder draft ledger troubles testimony tally judgement forgiven nursery bear Unborn tend life
    child desk facts messenger rendezvous place board keeper deal places feed reading Trainee Caller Call Called Ballot
    settle step_apart side_car by_hand alone appointments last_word departure
"""
"""What each is called instead stands in docs/glossary.md or is the word of Kubernetes, client-go, Keras or Orbax."""
WORDS = {form for word in REPLACED.split() for form in (word, word.title())}
NAMES_OF_OTHERS = {("operator", "store")}
"""By top folder: kopf asks a storage for a method `store`."""


def sources() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [Path(line) for line in listed.splitlines() if (ROOT / line).is_file()]


def is_fixture(node: ast.AST) -> bool:
    return any("fixture" in ast.unparse(each) for each in getattr(node, "decorator_list", ()))


def names(file: Path) -> Iterator[str]:
    """The names of a module, of its folder, and of all classes and functions in it."""
    yield file.parent.name if file.name == "__init__.py" else file.stem
    for node in ast.walk(ast.parse((ROOT / file).read_text())):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not is_fixture(node):
            yield node.name


def test_nothing_is_named_by_a_word_that_was_replaced():
    found = {(file.parts[0], name) for file in sources() for name in names(file) if name in WORDS}
    assert found == NAMES_OF_OTHERS
