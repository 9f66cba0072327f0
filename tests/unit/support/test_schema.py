"""The API server of the tests applies our CRD: pruning, defaults, types, enums."""

from __future__ import annotations

import pytest

from tests.support.apiserver import ApiServer
from tests.support.apiserver.errors import Refusal
from tests.support.apiserver.kinds import JOBS
from tests.support.apiserver.server import CRD_FILE

pytestmark = pytest.mark.skipif(not CRD_FILE.exists(), reason="the CRD has not been generated: make generate")


def job(**spec: object) -> dict[str, object]:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "trainer:1", "futureField": 1}]}}
    return {"metadata": {"name": "a"}, "spec": {"replicaSpecs": {"worker": {"template": template}}, **spec}}


def test_what_is_left_out_gets_the_defaults_of_the_schema():
    made = ApiServer().create("distributedtrainingjobs", job())
    assert made["spec"]["replicaSpecs"]["worker"]["replicas"] == 1
    assert made["spec"]["failurePolicy"]["maxRestarts"] == 3


def test_unknown_fields_are_pruned():
    made = ApiServer().create("distributedtrainingjobs", job(nonsense=1))
    assert "nonsense" not in made["spec"]


def test_unknown_fields_are_refused_under_strict_validation():
    with pytest.raises(Refusal, match="unknown field"):
        ApiServer().registry.create(JOBS, "default", job(nonsense=1), strict=True)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"strategy": {"type": "Magic"}}, "Unsupported value"),
        ({"suspend": "yes"}, "must be of type boolean"),
        ({"failurePolicy": {"maxRestarts": -1}}, "greater than or equal to 0"),
    ],
)
def test_values_that_the_schema_forbids_are_refused(spec, said):
    with pytest.raises(Refusal, match=said):
        ApiServer().create("distributedtrainingjobs", job(**spec))
