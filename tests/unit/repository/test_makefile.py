"""What all targets of the Makefile share: the environment's interpreter, and the terminal's encoding."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import environment

ROOT = Path(__file__).resolve().parents[3]


def in_environment(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `program` as a target of the Makefile does."""
    target = f"probe: ; $(in_environment) -c '{program}'"
    command = ["make", "--silent", "--eval", target, "probe", f"PYTHON={sys.executable}"]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | variables, capture_output=True, check=False, text=True, encoding="latin-1"
    )


def test_a_cache_whose_path_has_a_space_is_found(tmp_path):
    cache = tmp_path / "with space"
    (cache / "venv").mkdir(parents=True)
    (cache / "venv" / environment.key()).symlink_to(sys.prefix)
    done = in_environment("import sys; print(sys.prefix)", DTJ_CACHE=str(cache))
    assert (done.stdout, done.stderr) == (f"{cache}/venv/{environment.key()}\n", "")


def test_a_terminal_that_lacks_a_character_gets_another_in_its_place():
    done = in_environment('print("── ✓ café")', PYTHONIOENCODING="latin-1")
    assert (done.stdout, done.stderr) == ("?? ? café\n", "")


@pytest.mark.parametrize(
    ("given", "run"), [([], "tests/unit"), (["WHAT=tests/unit/x.py::test_y"], "tests/unit/x.py::test_y")]
)
def test_make_unit_runs_what_it_is_given(given: list[str], run: str):
    shown = subprocess.run(
        ["make", "--no-print-directory", "-n", "unit", *given], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    assert shown.rstrip().endswith(f"-m pytest -q {run}")
