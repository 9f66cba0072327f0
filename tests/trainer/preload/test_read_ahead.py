"""Modules read ahead of TensorFlow's import: the ones that it imports, which are the same as without."""

from pathlib import Path

import pytest

from dtj_trainer.preload.imports import PRELOADED
from tests.trainer.preload.conftest import told

pytestmark = pytest.mark.trainer
NEEDED = {*PRELOADED, "dtj_trainer.process.main"}
"""What each training process imports; one that is misspelled would be passed over."""


def test_an_import_with_the_list_of_one_before_runs_the_same_modules_from_code_read_ahead(tmp_path):
    listed = str(tmp_path / "imported.txt")
    without, then = told("read_ahead.py", listed, "write"), told("read_ahead.py", listed)
    assert then["modules"] == without["modules"]
    assert set(then["modules"]) >= NEEDED
    assert without["read"] == 0
    assert then["read"] > 1_000
    assert then["read"] > 0.95 * Path(listed).read_text().count(".py\n")
