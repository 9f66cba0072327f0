"""What TensorFlow or Keras lacks is said in one sentence, before anything is built on it."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from dtj_trainer.compat import keras, tensorflow
from dtj_trainer.errors import PreflightFailed


@pytest.mark.parametrize(("compat", "name"), [(tensorflow, "TensorFlow"), (keras, "Keras")])
@pytest.mark.parametrize("missing", [("json", "loads.missing"), ("json.missing", "loads")])
def test_what_a_version_lacks_and_what_for_is_said(
    compat: ModuleType, name: str, missing: tuple[str, str], monkeypatch
):
    monkeypatch.setattr(compat, "NEEDED", {"decoding": ("json", "loads"), "several processes": missing})
    monkeypatch.setitem(sys.modules, name.lower(), SimpleNamespace(__version__="9.9"))
    with pytest.raises(PreflightFailed) as refused:
        compat.check()
    lacks = ".".join(missing)
    assert str(refused.value).startswith(
        f"{name} 9.9 has no {lacks}, which is needed for several processes; use {name} "
    )


@pytest.mark.parametrize("compat", [tensorflow, keras])
def test_a_version_that_has_everything_is_taken(compat: ModuleType, monkeypatch):
    monkeypatch.setattr(compat, "NEEDED", {"decoding": ("json", "loads")})
    compat.check()
