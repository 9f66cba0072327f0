"""Module names in strings, documents and settings: the modules are there, though no import would miss them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from dtj_trainer.preload import read_ahead

ROOT = Path(__file__).resolve().parents[3]
SOURCES = {"dtj_operator": ROOT / "operator", "dtj_trainer": ROOT / "trainer-image"}
NAME = re.compile(r"(?<![\w./-])dtj_(?:operator|trainer)(?:\\?\.(?!__)\w+)+")
"""Also as a regular expression writes it."""
NO_MODULES = {"dtj_trainer.data.open", "dtj_trainer.data.next", "dtj_trainer.told"}
"""Two names that functions are registered under with TensorFlow, and a module that a test makes up."""
WRITTEN = {".py", ".toml", ".md", ".yaml", ""}
"""The kinds of files that name modules; Dockerfile and Makefile have no suffix."""


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / line for line in listed.splitlines() if Path(line).suffix in WRITTEN and (ROOT / line).is_file()]


def source(module: str) -> Path | None:
    """The file of a module or package."""
    place = SOURCES[module.partition(".")[0]].joinpath(*module.split("."))
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)


def exists(name: str) -> bool:
    """Whether it is a module, or what is asked for in the innermost module occurs there."""
    module, rest = name, ""
    while (file := source(module)) is None:
        module, _, rest = module.rpartition(".")
    return not rest or re.search(rf"\b{rest}\b", file.read_text()) is not None


def test_every_module_that_is_named_anywhere_exists():
    found = {
        (str(file.relative_to(ROOT)), name.replace("\\", ""))
        for file in tracked()
        if file.name != "CHANGELOG.md" and file != Path(__file__)
        for name in NAME.findall(file.read_text())
    }
    assert len({name for _, name in found}) > 200
    assert sorted((file, name) for file, name in found if name not in NO_MODULES and not exists(name)) == []


@pytest.mark.parametrize("name", ["dtj_trainer.supervisor.nowhere", "dtj_trainer.nowhere.fit", "dtj_trainer.errors.No"])
def test_one_that_does_not_exist_is_found(name):
    assert not exists(name)


def test_the_list_of_modules_to_read_ahead_is_ignored_by_git():
    asked = subprocess.run(["git", "check-ignore", "-q", read_ahead.LIST], cwd=ROOT, check=False)
    assert asked.returncode == 0
