"""Modules read ahead of TensorFlow's import: the ones that it imports, which are the same as without."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.trainer
PROGRAM = Path(__file__).parent / "programs" / "ahead.py"


def preloaded(*arguments: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, str(PROGRAM), *arguments], capture_output=True, text=True, check=True)
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_an_import_with_the_list_of_one_before_runs_the_same_modules_from_code_read_ahead(tmp_path):
    listed = str(tmp_path / "imported.txt")
    without, then = preloaded(listed, "write"), preloaded(listed)
    assert then["modules"] == without["modules"]
    assert without["read"] == 0
    assert then["read"] > 1_500
    assert then["read"] > 0.95 * len(Path(listed).read_text().splitlines())
