"""What a program finds in TensorFlow, though most of it is loaded only when a program looks for it."""

import json
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.trainer.preload.conftest import told

pytestmark = pytest.mark.trainer


@pytest.mark.matrix
def test_a_program_in_a_pod_finds_all_of_tensorflow():
    plain, preloaded = told("public_names.py"), told("public_names.py", "preloaded")
    assert len(plain) > 2_500
    assert preloaded == plain


def test_a_process_that_goes_on_from_a_checkpoint_finds_imported_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    cluster = {"worker": [f"127.0.0.1:{free_port()}"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}}))
    monkeypatch.setenv("DTJ_STRATEGY", '{"type": "MultiWorkerMirrored"}')
    imported = told("resumed.py", str(tmp_path))
    large = [name for name in imported if name in {"h5py", "requests", "rich", "scipy", "tensorflow.python.keras"}]
    assert large == []
    run = [name for name in imported if not name.startswith("tensorflow._api.")]  # most of these wait
    assert len(run) < 60, run
