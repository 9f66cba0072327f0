"""The rooms of the product: no import circles, no file name twice, no long files, no crowded folders."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = {
    "dtj_operator": ROOT / "operator" / "dtj_operator",
    "dtj_trainer": ROOT / "trainer-image" / "dtj_trainer",
    "dtj": ROOT / "client" / "dtj",
}
MOST_LINES = 300
MOST_MODULES = 15


def modules(package: str) -> dict[str, Path]:
    """Return the files of a package by module name."""
    home = PACKAGES[package]
    files = {".".join((package, *file.relative_to(home).with_suffix("").parts)): file for file in home.rglob("*.py")}
    return {name.removesuffix(".__init__"): file for name, file in files.items()}


class Imports(ast.NodeVisitor):
    """Collects what a file imports, wherever it does, but not for type checkers alone."""

    def __init__(self, known: set[str]) -> None:
        self.known = known
        self.found: set[str] = set()

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.found |= {alias.name for alias in node.names} & self.known

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            submodule = f"{node.module}.{alias.name}"
            self.found |= {submodule if submodule in self.known else str(node.module)} & self.known


def imports(file: Path, known: set[str]) -> set[str]:
    visitor = Imports(known)
    visitor.visit(ast.parse(file.read_text()))
    return visitor.found


def in_circles(graph: dict[str, set[str]]) -> set[str]:
    """Return the modules that import themselves through others."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = list(graph[start])
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += graph[name]
        return seen

    return {name for name in graph if name in reached(name)}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_file_imports_itself_through_others(package):
    files = modules(package)
    circles = in_circles({name: imports(file, set(files)) - {name} for name, file in files.items()})
    assert sorted(circles) == []


def test_every_file_name_of_the_operator_occurs_once():
    count = Counter(file.name for file in modules("dtj_operator").values() if file.name != "__init__.py")
    assert {name for name, times in count.items() if times > 1} == set()


def test_no_file_of_the_product_is_long():
    files = [file for source in ("operator", "trainer-image") for file in (ROOT / source).rglob("*.py")]
    assert {file.name for file in files if len(file.read_text().splitlines()) > MOST_LINES} == set()


def test_a_folder_with_many_modules_says_why_it_has_them():
    """One that keeps them gives the reason, and the word "modules", in its `__init__.py`."""
    full = set()
    for package, home in PACKAGES.items():
        for folder in {file.parent for file in modules(package).values()}:
            inside = [file for file in folder.glob("*.py") if file.name != "__init__.py"]
            if len(inside) > MOST_MODULES and "modules" not in (folder / "__init__.py").read_text():
                full.add(folder.relative_to(home.parent).as_posix())
    assert full == set()
