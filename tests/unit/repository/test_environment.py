"""The environment's key and its prerequisites."""

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

from tools import environment
from tools.environment import EnvironmentImpossibleError


def test_the_key_follows_the_requirements(tmp_path, monkeypatch):
    requirements = tmp_path / "dev.txt"
    monkeypatch.setattr(environment, "REQUIREMENTS", requirements)
    requirements.write_text("a==1\n")
    before = environment.key()
    requirements.write_text("a==2\n")
    assert environment.key() != before


def test_the_cache_is_where_the_caller_says(tmp_path, monkeypatch):
    monkeypatch.setenv("DTJ_CACHE", str(tmp_path))
    assert environment.cache() == tmp_path
    monkeypatch.delenv("DTJ_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert environment.cache() == tmp_path / "dtj"


def test_another_python_is_refused_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    with pytest.raises(EnvironmentImpossibleError, match=r"Python 3\.11 .*PYTHON="):
        environment.check_prerequisites(tmp_path)


def test_another_python_is_used_where_its_version_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("DTJ_CACHE", str(tmp_path))
    monkeypatch.setattr(sys, "version_info", (3, 12, 1))
    monkeypatch.setattr(environment, "install", lambda venv: venv.mkdir())
    assert environment.interpreter("3.12") == tmp_path / "venv-3.12" / environment.key() / "bin" / "python"


def test_a_python_without_pip_names_the_package_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ensurepip" else name)
    with pytest.raises(EnvironmentImpossibleError, match="apt-get install python3-venv"):
        environment.check_prerequisites(tmp_path)


def test_a_cache_that_is_there_and_cannot_be_written_is_named():
    place = Path("/sys")  # where not even root makes a file
    with pytest.raises(EnvironmentImpossibleError, match=f"{place} cannot be written .* DTJ_CACHE"):
        environment.check_prerequisites(place)


def test_a_full_disk_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(EnvironmentImpossibleError, match=r"GB free .* DTJ_CACHE"):
        environment.check_prerequisites(tmp_path)


def test_a_failed_installation_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("DTJ_CACHE", str(tmp_path))
    broken = tmp_path / "dev.txt"
    broken.write_text("this is no requirement ===\n")
    monkeypatch.setattr(environment, "REQUIREMENTS", broken)
    monkeypatch.setattr(environment, "check_prerequisites", lambda where, _: where.mkdir(parents=True))
    with pytest.raises(EnvironmentImpossibleError, match="pip could not"):
        environment.interpreter()
    assert [entry.suffix for entry in (tmp_path / "venv").iterdir()] == [".lock"]
