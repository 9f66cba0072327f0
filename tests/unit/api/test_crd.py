"""The definition as text: complete, structural, and the one that is committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from dtj_operator.api.crd import crd, crd_yaml
from dtj_operator.api.job import Job
from dtj_operator.api.structural_schema import NotStructural, structural_schema
from tests.support.job_builder import failed, job, ready

COMMITTED = Path(__file__).parents[3] / "crds" / "dtj.dev_distributedtrainingjobs.yaml"
FORBIDDEN = {"$ref", "anyOf", "allOf", "oneOf", "const", "title", "propertyNames", "exclusiveMinimum", "prefixItems"}


def schema() -> dict[str, Any]:
    return crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def walk(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}")
    for inner in ("items", "additionalProperties"):
        if isinstance(node.get(inner), dict):
            yield from walk(node[inner], f"{path}[]")


def test_the_committed_text_is_the_generated_one():
    assert COMMITTED.read_text() == crd_yaml(), "run `make generate` and commit the result"


def test_the_text_says_everything_in_full():
    references = (yaml.AnchorToken, yaml.AliasToken)
    assert [token for token in yaml.scan(crd_yaml()) if isinstance(token, references)] == []


def test_every_field_has_a_description():
    silent = [path for path, node in walk(schema()) if "description" not in node and path.count(".") > 1]
    assert [path for path in silent if not path.endswith("[]") and not path.startswith(".metadata")] == []


def test_nothing_that_a_structural_schema_forbids():
    assert [path for path, node in walk(schema()) if FORBIDDEN & node.keys()] == []


def test_every_property_is_in_camel_case():
    assert [path for path, _ in walk(schema()) if "_" in path] == []


def test_the_definition_is_small_enough_for_client_side_apply():
    assert len(crd_yaml()) < 200_000


def test_columns_and_scale_paths_are_those_of_the_contract():
    version = crd()["spec"]["versions"][0]
    columns = version["additionalPrinterColumns"]
    assert [c["name"] for c in columns if not c["priority"]] == [
        "State",
        "Strategy",
        "Workers",
        "Restarts",
        "Step",
        "Age",
    ]
    assert [c["name"] for c in columns if c["priority"]] == ["In-Place", "Message"]
    assert version["subresources"]["scale"]["statusReplicasPath"] == ".status.replicaStatuses.worker.created"


def test_a_status_survives_the_way_through_the_api():
    world = job(worker=2, evaluator=1).running().pod("worker", 1, failed(1, message="x")).reconcile()
    world.pod("evaluator", 0, failed(3)).later(1).reconcile().each(ready()).reconcile()
    status = world.status
    assert Job.parse({"status": status.wire()}).status == status
    assert status.wire() == Job.parse({"status": status.wire()}).status.wire()


def test_a_spec_that_cannot_be_read_is_said_and_not_acted_upon():
    world = job(worker=1).running()
    world.raw["spec"]["replicaSpecs"] = {"worker": {"replicas": -1, "template": {}}}
    outcome = world.act()
    assert outcome.plan.actions == ()
    assert "Invalid" in outcome.true()
    assert "replicaSpecs.worker.replicas" in outcome.status.message


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        ("metadata", {"labels": "a=b"}),
        ("spec", {"volumes": "data"}),
        ("spec", {"restartPolicy": {}}),
        ("spec", {"affinity": {"nodeAffinity": "here"}}),
        ("spec", {"containers": [{"name": "a", "image": "b", "ports": [80]}]}),
        ("spec", {"containers": [{"name": "a", "image": "b", "resources": []}]}),
    ],
)
def test_nonsense_in_a_template_that_the_server_keeps_is_said_and_not_acted_upon(place: str, wrong: dict[str, Any]):
    world = job(worker=1)
    template = world.raw["spec"]["replicaSpecs"]["worker"]["template"]
    template[place] = template.get(place, {}) | wrong
    outcome = world.act()
    assert outcome.plan.actions == ()
    assert "Invalid" in outcome.true()
    assert f"replicaSpecs.worker.template: Value error, {place}." in outcome.status.message


def test_a_status_that_cannot_be_read_is_never_overwritten():
    world = job(worker=1).running()
    world.raw["status"]["attempt"] = "many"
    assert world.decide().plan.status is None


def test_a_model_that_a_definition_cannot_express_is_named():
    class Wrong(BaseModel):
        value: int | str

    with pytest.raises(NotStructural, match=r"Wrong\.value"):
        structural_schema(Wrong)
