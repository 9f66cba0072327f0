"""The committed CRD is what its generator writes."""

from pathlib import Path

import pytest

from dtj_operator.api.crd import crd_yaml

ROOT = Path(__file__).resolve().parents[3]
CRD_FILE = "dtj.dev_distributedtrainingjobs.yaml"


@pytest.mark.parametrize("folder", ["crds", "charts/dtj-operator/files"])
def test_the_committed_crd_is_what_the_generator_writes(folder):
    committed = ROOT / folder / CRD_FILE
    assert committed.exists(), "run `make generate`"
    assert committed.read_text() == crd_yaml(), "the resource's model has changed: run `make generate`"
