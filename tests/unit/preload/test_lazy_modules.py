"""Modules that are loaded at their first use."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from dtj_trainer.preload.lazy_modules import defer, demand

Importer = Callable[[str], ModuleType]


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Importer]:
    """Writes a module `seldom` with this text in a package, and imports package and module with it deferred."""
    package = tmp_path / "some_package"
    package.mkdir()
    (package / "__init__.py").write_text("from some_package import seldom\nruns = []\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])

    def write(text: str) -> ModuleType:
        (package / "seldom.py").write_text("import some_package\nsome_package.runs.append(__name__)\n" + text)
        defer(("some_package.sel",))
        return importlib.import_module("some_package")

    yield write
    for name in [name for name in sys.modules if name.startswith("some_package")]:
        del sys.modules[name]


def test_a_deferred_module_runs_once_at_its_first_use(bring: Importer):
    package = bring("value = 7\n")
    assert package.runs == []
    assert (package.seldom.value, package.seldom.value) == (7, 7)
    assert package.runs == ["some_package.seldom"]
    assert type(package.seldom) is ModuleType


def test_who_only_looks_at_all_modules_there_are_loads_nothing(bring: Importer):
    package = bring("value = 7\n")
    assert Path(package.seldom.__file__).name == "seldom.py"
    assert not hasattr(package.seldom, "__wrapped__")
    assert repr(package.seldom)
    assert package.runs == []


def test_a_name_and_a_star_are_imported_from_it_as_from_any_other(bring: Importer):
    bring("value = 7\n")
    names: dict[str, object] = {}
    exec("from some_package.seldom import value", names)
    assert names["value"] == 7
    names.clear()
    exec("from some_package.seldom import *", names)
    assert names["value"] == 7


def test_one_that_cannot_be_loaded_says_so_each_time(bring: Importer):
    package = bring("import a_module_that_nobody_has\n")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="a_module_that_nobody_has"):
            _ = package.seldom.value


def test_names_of_its_own_are_found_in_it_whatever_their_form(bring: Importer):
    package = bring("__version__ = '2'\n")
    assert package.seldom.__version__ == "2"


def test_it_lists_what_is_in_it(bring: Importer):
    assert "value" in dir(bring("value = 7\n").seldom)


def test_it_is_loaded_on_demand_and_once(bring: Importer):
    package = bring("")
    demand(package.seldom)
    demand(package.seldom)
    demand(package)
    assert package.runs == ["some_package.seldom"]
