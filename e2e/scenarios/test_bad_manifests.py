"""Invalid manifests are refused by the API server itself, with a sentence that says what to change."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from e2e.cluster.api_client import ApiError, jobs_path
from e2e.jobs import manifest
from e2e.scenarios.fixtures import Installation, Record

pytestmark = pytest.mark.e2e

Change = Callable[[dict[str, Any]], None]


def unknown_role(job: dict[str, Any]) -> None:
    job["spec"]["replicaSpecs"]["wrker"] = copy.deepcopy(job["spec"]["replicaSpecs"]["worker"])


def two_chiefs(job: dict[str, Any]) -> None:
    job["spec"]["replicaSpecs"]["chief"] = copy.deepcopy(job["spec"]["replicaSpecs"]["worker"])


def no_container(job: dict[str, Any]) -> None:
    job["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["containers"] = []


def long_name(job: dict[str, Any]) -> None:
    job["metadata"]["name"] = "d" * 41


def ps_without_parameter_server(job: dict[str, Any]) -> None:
    job["spec"]["strategy"] = {"type": "MultiWorkerMirrored"}
    job["spec"]["replicaSpecs"]["ps"] = copy.deepcopy(job["spec"]["replicaSpecs"]["worker"])


def tf_config_in_the_template(job: dict[str, Any]) -> None:
    container = job["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "TF_CONFIG", "value": "{}"}]


WORDS: dict[Change, tuple[str, ...]] = {
    unknown_role: ("chief, worker, ps", "evaluator"),
    two_chiefs: ("chief", "1"),
    no_container: ("container",),
    long_name: ("40",),
    ps_without_parameter_server: ("ps", "ParameterServer"),
    tf_config_in_the_template: ("TF_CONFIG",),
}


@pytest.mark.parametrize("change", WORDS, ids=lambda change: change.__name__)
def test_bad_manifest_is_refused(installation: Installation, change: Change, record_property: Record) -> None:
    job = manifest()
    change(job)
    with pytest.raises(ApiError) as refusal:
        installation.api.post(jobs_path("default"), job, fieldValidation="Strict", dryRun="All")
    record_property("message", refusal.value.message)
    assert refusal.value.code in {400, 422}
    for word in WORDS[change]:
        assert word in refusal.value.message
