"""What the text of a program tells, and when TensorFlow may be imported ahead of it."""

import pytest

from dtj_trainer.cluster import accelerators
from dtj_trainer.supervisor.program import may_preload, uses_dtj, variables_set_for_import


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('os.environ["TF_USE_LEGACY_KERAS"] = "1"', {"TF_USE_LEGACY_KERAS"}),
        ("os.environ.setdefault('XLA_FLAGS', '')", {"XLA_FLAGS"}),
        ('os.putenv("KERAS_BACKEND", "jax")', {"KERAS_BACKEND"}),
        ('os.environ["TF_CONFIG"] = "{}"', set()),
        ('os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"', set()),
        ('x = os.environ.get("TF_CONFIG")', set()),
    ],
)
def test_variables_that_tensorflow_reads_at_import_are_found(text: str, names: set[str]):
    assert variables_set_for_import(text) == names


@pytest.mark.parametrize("name", ["dtj", "dtj_trainer"])
def test_a_program_of_ours_is_known_by_its_import(name: str):
    assert uses_dtj(f"import {name}\n")
    assert uses_dtj(f"import {name} as train\n")
    assert uses_dtj(f"try:\n    import {name}.data\nexcept ImportError:\n    pass\n")
    assert uses_dtj(f"x = 1\nfrom {name} import fit\n")
    assert uses_dtj(f"from {name}.data import Pipeline\n")


@pytest.mark.parametrize(
    "text", ['"""dtj"""', '"""dtj_trainer"""', "import dtj_operator", "from dtjs import fit", "dtj = 1"]
)
def test_a_program_that_only_names_us_is_not_of_ours(text: str):
    assert not uses_dtj(f"{text}\n")


def test_tensorflow_is_not_imported_ahead_where_that_would_claim_a_tpu(tmp_path, monkeypatch):
    monkeypatch.setattr(accelerators, "DEVICES", tmp_path)
    assert may_preload("auto", None, "OneDevice", {})
    assert not may_preload("auto", None, "TPU", {})
    assert not may_preload("auto", None, "None", {"TPU_NAME": "local"})
    (tmp_path / "vfio").mkdir()
    (tmp_path / "vfio" / "0").touch()
    assert may_preload("auto", None, "OneDevice", {})
    assert not may_preload("auto", None, "OneDevice", {"TPU_WORKER_ID": "0"})
