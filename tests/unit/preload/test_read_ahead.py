"""Code that is read before it is imported: used where an import would have found it, and nowhere else."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from dtj_trainer.preload import imports, read_ahead


@pytest.fixture
def site_packages(tmp_path, monkeypatch):
    """A package `ahead_of` with a module `told` in a place that is listed."""
    package = tmp_path / "place" / "ahead_of"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "told.py").write_text("WORD = 1\n")
    (tmp_path / "list").write_text("ahead_of/gone.py\nahead_of/told.py\n")
    monkeypatch.setattr(read_ahead, "LIST", str(tmp_path / "list"))
    monkeypatch.setattr(read_ahead, "SITE_PACKAGES", str(tmp_path / "place"))
    monkeypatch.syspath_prepend(tmp_path / "place")
    yield tmp_path / "place"
    for name in [name for name in sys.modules if name.startswith("ahead_of")]:
        del sys.modules[name]


def told() -> int:
    word: int = import_module("ahead_of.told").WORD
    return word


def test_a_listed_module_is_imported_from_what_was_read_before(site_packages):
    with read_ahead.ReadAhead().fetched():
        (site_packages / "ahead_of" / "told.py").write_text("WORD = 22\n")
        assert told() == 1
        assert Path(import_module("ahead_of.told").__file__ or "") == site_packages / "ahead_of" / "told.py"
        with pytest.raises(ModuleNotFoundError):
            import_module("ahead_of.gone")


def test_listed_names_are_imported_at_once_and_those_of_no_module_passed_over(site_packages):
    Path(read_ahead.LIST).write_text("ahead_of.gone\nahead_of.told\nahead_of_library.so\n")
    with read_ahead.ReadAhead().fetched("ahead_of"):
        assert {"ahead_of", "ahead_of.told"} == {name for name in sys.modules if name.startswith("ahead_of")}


def test_what_has_been_imported_is_listed_by_path_in_the_place_and_by_name_where_it_is_pythons_own(
    site_packages, monkeypatch
):
    told()
    for name in ("dtj.told", "dtj_trainer.told"):
        module = ModuleType(name)
        module.__file__ = f"{site_packages}/{name.replace('.', '/')}.py"
        monkeypatch.setitem(sys.modules, name, module)
    found = imports.imported()
    assert "ahead_of/told.py" in found
    assert {"json.decoder", "_json.so"} <= set(found)
    assert not [line for line in found if line.startswith(("dtj", "__main__"))]


def test_the_same_package_in_a_place_that_comes_first_is_imported_from_there(site_packages, tmp_path, monkeypatch):
    other = tmp_path / "other" / "ahead_of"
    other.mkdir(parents=True)
    (other / "__init__.py").touch()
    (other / "told.py").write_text("WORD = 3\n")
    monkeypatch.syspath_prepend(tmp_path / "other")
    with read_ahead.ReadAhead().fetched():
        assert told() == 3


def test_afterwards_and_without_a_list_imports_are_what_they_were(site_packages):
    finders = list(sys.meta_path)
    with read_ahead.ReadAhead().fetched():
        assert len(sys.meta_path) == len(finders) + 1
    assert sys.meta_path == finders
    Path(read_ahead.LIST).unlink()
    with read_ahead.ReadAhead().fetched():
        assert told() == 1
