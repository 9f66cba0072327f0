"""The tests that tests/behaviours.md names exist."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "tests" / "behaviours.md").read_text()
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
LATER = "55"
"""The behaviour of a later step."""


def named() -> Iterator[tuple[str, str]]:
    """Yield (file, test) of the last column; where the file is left out it is the one before."""
    for row in ROWS:
        file = ""
        for place, test in re.findall(r"([\w/]+\.py)?(?:::(\w+))?", row[-1]):
            if place or test:
                file = place or file
                yield file, test


def defined(file: str) -> set[str]:
    """Return the names that a module defines at its top level."""
    place = ROOT / file if file.startswith("e2e/") else ROOT / "tests" / file
    names: set[str] = set()
    for node in ast.parse(place.read_text()).body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Assign():
                names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def test_every_test_that_is_named_exists():
    assert len(list(named())) > 60
    assert [f"{file}::{test}" for file, test in named() if test and test not in defined(file)] == []
    assert [file for file, test in named() if not test and not defined(file)] == []


def test_all_sixty_are_there_in_their_order_and_each_has_a_test():
    numbered = [row for row in ROWS if re.fullmatch(r"[\d, ]+", row[0])]
    assert [int(number) for row in numbered for number in row[0].split(",")] == list(range(1, 61))
    assert [row[0] for row in numbered if "::" not in row[-1]] == [LATER]
