"""Imports that are made when what they bring is used."""

import builtins
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from dtj_trainer.supervisor.omission import less_imported

Importer = Callable[[str], ModuleType]
IMPORT = "try:\n    import dear\n    import dear.part\nexcept ImportError:\n    dear = None\n"


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Importer]:
    """Imports a module with this text, with its imports of the package `dear` left out. `dear.part` has a `value`."""
    (tmp_path / "dear").mkdir()
    (tmp_path / "dear" / "__init__.py").write_text("")
    (tmp_path / "dear" / "part.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(tmp_path)

    def write(text: str) -> ModuleType:
        (tmp_path / "importer.py").write_text(text)
        with less_imported({"importer": "dear", "taker": "dear"}):
            return importlib.import_module("importer")

    yield write
    for name in ("dear", "dear.part", "importer", "other", "taker"):
        sys.modules.pop(name, None)


def test_a_package_is_imported_when_something_in_it_is_used(bring: Importer):
    importer = bring(IMPORT)
    assert importer.dear is not None
    assert "dear" not in sys.modules
    assert importer.dear.part is sys.modules["dear.part"]
    assert importer.dear.part.value == 7


def test_a_name_of_it_is_found_when_it_is_looked_for(bring: Importer):
    importer = bring("from dear.part import value as worth\nown = 1\n")
    assert {"worth", "own"} <= set(dir(importer))
    assert "dear" not in sys.modules
    assert (importer.worth, importer.own) == (7, 1)
    names: dict[str, object] = {}
    exec("from importer import worth", names)
    assert names["worth"] == 7


def test_a_module_of_it_and_what_is_taken_from_that_are_found_when_they_are_looked_for(bring: Importer):
    importer = bring("from dear import part\nworth = part.value\n")
    assert "dear" not in sys.modules
    assert (importer.worth, importer.part) == (7, sys.modules["dear.part"])


def test_who_takes_all_names_of_such_a_module_finds_them_too(bring: Importer, tmp_path: Path):
    (tmp_path / "taker.py").write_text("from dear.part import value as worth\n")
    importer = bring("from taker import *\nimport taker\n")
    assert "dear" not in sys.modules
    assert (importer.worth, importer.taker.worth) == (7, 7)


def test_a_name_that_is_nowhere_is_missed_as_in_any_module(bring: Importer):
    importer = bring("from dear.part import value\nimport dear\n")
    for module in (importer, importer.dear):
        with pytest.raises(AttributeError, match="has no attribute 'worth'"):
            _ = module.worth


def test_one_that_is_not_installed_is_missed_at_once(bring: Importer, tmp_path: Path):
    (tmp_path / "dear").rename(tmp_path / "cheap")
    assert bring(IMPORT).dear is None


def test_what_others_import_and_what_the_module_imports_else_is_imported_at_once(bring: Importer, tmp_path: Path):
    (tmp_path / "other.py").write_text("from dear.part import value\n")
    importer = bring("import other\nimport json\n")
    assert importer.other.value == 7
    assert importer.json is importlib.import_module("json")


def test_afterwards_all_is_as_before(bring: Importer):
    before = builtins.__import__
    with pytest.raises(ZeroDivisionError):
        bring("1 / 0\n")
    assert builtins.__import__ is before
