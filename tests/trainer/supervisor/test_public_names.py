"""What a program finds in TensorFlow, though most of it is loaded only when a program looks for it."""

from pathlib import Path

import pytest

from tests.trainer.supervisor.conftest import told

pytestmark = pytest.mark.trainer


def test_a_program_in_a_pod_finds_all_of_tensorflow():
    plain, preloaded = told("public_names.py"), told("public_names.py", "preloaded")
    assert len(plain) > 2_500
    assert preloaded == plain


def test_what_the_import_leaves_out_is_there_for_who_uses_it(tmp_path: Path):
    used = told("omitted.py", str(tmp_path))
    assert used["before"] == []
    assert used["after"] == used["packages"]
    assert "the_layer" in used["summary"]
    assert used["same"] == [True, True]
    assert any("Could not reach RemoteMonitor" in warning for warning in used["warned"])
    assert used["wrapper"].startswith("tensorflow.python.keras.")
