"""What an older operator has written is read, kept and written back: a renamed field must not lose it.

The files in `persisted/` are statuses as they stand in the API. They change only when the resource does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dtj_operator.api.crd import crd
from dtj_operator.api.job import spec_hash
from dtj_operator.api.spec import JobSpec
from dtj_operator.api.status import JobStatus
from tests.support.job_builder import JobBuilder, done, failed, job, ready, restarted, told, worker

FILES = sorted((Path(__file__).parent / "persisted").glob("*.json"))
EVALUATED = {"chief": 1, "worker": 3, "ps": 1, "evaluator": {"replicas": 1, "restartPolicy": "OnFailure"}}
ALWAYS = {"replicas": 2, "restartPolicy": "Always"}


def text(status: JobStatus) -> str:
    return json.dumps(status.wire(), indent=2) + "\n"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_status_that_is_read_and_written_back_is_the_same_to_the_byte(file: Path):
    assert text(JobStatus.model_validate_json(file.read_text())) == file.read_text()


def fields(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Every field of a schema; `*` stands for a key, `[]` for an entry."""
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from fields(inner, f"{path}.{name}")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from fields(schema["additionalProperties"], f"{path}.*")
    if "items" in schema:
        yield from fields(schema["items"], f"{path}[]")


def filled(value: Any, schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """The fields of a value that say something else than their default does."""
    if isinstance(value, list):
        for each in value:
            yield from filled(each, schema["items"], f"{path}[]")
    elif isinstance(value, dict):
        for name, inner in value.items():
            known = schema.get("properties", {}).get(name)
            place = f"{path}.{name}" if known else f"{path}.*"
            if known and inner not in (0, "", {}, [], False, None):
                yield place
            yield from filled(inner, known or schema.get("additionalProperties") or {}, place)


def test_one_of_the_files_has_every_field_of_status_filled():
    schema = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    (full,) = [file for file in FILES if file.stem == "full"]
    assert set(fields(schema)) - set(filled(json.loads(full.read_text()), schema)) == set()


STORIES: dict[str, Callable[[], JobBuilder]] = {
    "starting": lambda: job(worker=2).reconcile(),
    "running": lambda: job(**EVALUATED).running(),
    "waits-to-restart": lambda: job(worker=3).running().later(5).pod("worker", 1, failed(1)).reconcile(),
    "restarting": lambda: (
        job(worker=3).running().later(5).pod("worker", 2, failed(143, disruption="PreemptionByScheduler")).reconcile()
    ),
    "recovered": lambda: (
        job(worker=2).running().later(5).pod("worker", 1, told("Preempted", 143, step=40)).reconcile().later(3)
        .reap().reconcile().each(ready()).reconcile()
    ),
    "container-restarted": lambda: (
        job(worker=2, ps=ALWAYS).running().later(9).pod("ps", 1, restarted(2, 137, reason="OOMKilled")).reconcile()
    ),
    "evaluator-failed": lambda: job(**EVALUATED).running().later(7).pod("evaluator", 0, failed(1)).reconcile(),
    "scaled": lambda: job(worker=2).running().later(4).scale(4).reconcile(),
    "suspended": lambda: job(worker=2).running().later(4).spec(suspend=True).reconcile(),
    "succeeded": lambda: job(worker=2).running().later(60).pod("worker", 0, done()).reconcile(),
    "failed": lambda: (
        job(worker=worker("Never")).running().pod("worker", 1, failed(3)).reconcile().later(2).reconcile()
    ),
}  # fmt: skip
"""How a job came to have the status in the file of that name."""


def without_words(value: Any) -> Any:
    """The same status without the sentences for people."""
    if isinstance(value, dict):
        return {name: without_words(inner) for name, inner in value.items() if name != "message"}
    return [without_words(inner) for inner in value] if isinstance(value, list) else value


def test_each_file_has_its_story():
    assert {file.stem for file in FILES} == {"full", *STORIES}


@pytest.mark.parametrize("name", STORIES)
def test_what_decide_writes_has_the_same_names_and_values(name):
    kept = json.loads((Path(__file__).parent / "persisted" / f"{name}.json").read_text())
    assert without_words(STORIES[name]().status.wire()) == without_words(kept)


def spec(role: str = "worker", /, replica: dict[str, Any] | None = None, **fields: Any) -> JobSpec:
    containers = [{"name": "tensorflow", "image": "example.org/train:1"}]
    one = {"replicas": 2, "template": {"spec": {"containers": containers}}, **(replica or {})}
    return JobSpec.model_validate({"replicaSpecs": {role: one}, **fields})


@pytest.mark.parametrize(("pinned", "wanted"), [
    ("337566a73e670bdf", spec()),
    ("15c580c49011c79b", spec("chief", {"replicas": 1, "restartPolicy": "ExitCode"})),
    ("337566a73e670bdf", spec(replica={"replicas": 7}, suspend=True, ttlSecondsAfterFinished=5, cleanPodPolicy="All")),
    ("9684cb80cde5eef5", spec(managedBy="dtj.dev/operator", failurePolicy={"maxRestarts": 9, "restartScope": "Pod"})),
    ("7c5160e5bc370ab3", spec(startDeadlineSeconds=60, mainContainer="tensorflow", clusterDomain="cluster.local")),
    ("76213a4085ce83de", spec(strategy={"type": "MultiWorkerMirrored", "crossDeviceOps": "NCCL",
                        "communication": {"implementation": "Ring", "timeoutSeconds": 9, "bytesPerPack": 1024}})),
    ("c896d4c56b53413d", spec(strategy={"type": "ParameterServer",
                        "variablePartitioner": {"type": "MaxSize", "minShardBytes": 1, "maxShards": 3}})),
    ("6a186bbb88169327", spec(successPolicy={"type": "AllWorkers", "waitForEvaluatorSeconds": 30},
                              checkpoint={"directory": "/c", "persistentVolumeClaim": "p", "everySteps": 5,
                                          "everySeconds": 6, "keep": 7})),
    ("f5b081c4fc2b4f1b", spec(failurePolicy={"restartScope": "Job", "nodeLossSeconds": 40,
                             "backoff": {"initialSeconds": 2, "maxSeconds": 20, "resetAfterSeconds": 200}})),
    ("0e75a25222f4d95e", spec(failurePolicy={"rules": [{"name": "oom", "roles": ["worker"], "reasons": ["OOMKilled"],
                                                       "exitCodes": {"operator": "In", "values": [137]},
                                                       "messagePattern": "a.*b", "countTowardsLimit": False,
                                                       "action": "Ignore"}]})),
])  # fmt: skip
def test_the_hash_of_a_spec_stays_for_a_new_one_would_report_every_running_job_as_changed(pinned, wanted):
    assert spec_hash(wanted) == pinned
