"""Every job in the docs, and every part of one, is accepted by our schema and rules to the last field."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.api_client import ApiClient, jobs_path
from tests.support.apiserver import ApiServer
from tests.support.apiserver.thread import in_a_thread

ROOT = Path(__file__).resolve().parents[3]
TEMPLATE = {"spec": {"containers": [{"name": "tensorflow", "image": "example.org/train:1"}]}}
WORKERS = {"worker": {"replicas": 2, "template": TEMPLATE}}
SLICE = {"chief": {"template": TEMPLATE}, "worker": {"replicas": 4, "template": TEMPLATE}}
"""The roles of a TPU slice of four hosts, the one in the docs."""


def whole(part: dict[str, Any]) -> dict[str, Any] | None:
    """The job that a block of YAML is, or is part of; None where it is something else."""
    if part.get("kind") == "DistributedTrainingJob":
        return part
    if set(part) == {"template"}:
        spec: dict[str, Any] = {"replicaSpecs": {"worker": part}}
    elif set(part) == {"spec"}:
        spec = {"replicaSpecs": SLICE if "tpu" in part["spec"] else WORKERS, **part["spec"]}
    else:
        return None
    return {"apiVersion": "dtj.dev/v1alpha1", "kind": "DistributedTrainingJob", "metadata": {"name": "a"}, "spec": spec}


def documented() -> Iterator[Any]:
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]):
        for number, text in enumerate(re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)):
            for document in yaml.safe_load_all(text):
                if isinstance(document, dict) and (job := whole(document)):
                    yield pytest.param(job, id=f"{page.relative_to(ROOT)}[{number}]")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiClient]:
    with in_a_thread(ApiServer(namespaces=["docs"])) as server:
        yield ApiClient(server.kubeconfig(tmp_path_factory.mktemp("api") / "kubeconfig"))


@pytest.mark.parametrize("job", list(documented()))
def test_a_manifest_of_the_docs_is_accepted(api: ApiClient, job: dict[str, Any]):
    assert api.create(f"{jobs_path('docs')}?fieldValidation=Strict&dryRun=All", job)["spec"]["replicaSpecs"]
