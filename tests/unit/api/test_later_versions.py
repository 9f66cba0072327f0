"""What a later version wrote into a status: this one keeps it, and does not act where it must not."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dtj_operator.api.crd import crd
from dtj_operator.api.job import Job
from dtj_operator.api.persisted_state import STATE_VERSION
from dtj_operator.api.status import JobStatus
from dtj_operator.api.unknown_fields import keep_unknown_fields
from dtj_operator.kube.merge_patch import create_merge_patch
from dtj_operator.reconcile.later_status import report_later_status
from tests.support.job_builder import NOW, JobBuilder, failed, job, ready

FULL = json.loads((Path(__file__).parent / "persisted" / "full.json").read_text())
MAPS = {"byCause", "metrics", "replicaStatuses", "completed", "slots", "failed", "repeatedEnds", "rejections"}
"""Fields whose keys are no field names."""


def from_later(value: Any, name: str = "status") -> Any:
    """The same status with a field in every object that this version does not know."""
    if isinstance(value, list):
        return [from_later(one, name) for one in value]
    if not isinstance(value, dict) or name == "inPlace":  # numbers by role and index
        return value
    inside = {key: from_later(one, "" if name in MAPS else key) for key, one in value.items()}
    return inside if name in MAPS else {**inside, "later": {"of": name}}


def objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(one)


def test_every_field_that_this_version_does_not_know_is_written_back():
    later = from_later(FULL)
    assert sum("later" in one for one in objects(later)) > 25
    assert keep_unknown_fields(JobStatus, later, JobStatus.model_validate(later).wire()) == later


def test_words_that_a_later_version_adds_are_read_and_written_back():
    later = copy.deepcopy(FULL)
    later["phase"] = "Dreaming"
    later["restarts"]["byCause"]["Earthquake"] = 2
    for place in (later["lastIncident"], later["lastRecovery"], later["ledger"]["incident"]["root"]):
        place["cause"] = "Earthquake"
    later["conditions"].append({**later["conditions"][0], "type": "Admitted"})
    assert JobStatus.model_validate(later).wire() == later


def later_world(world: JobBuilder) -> JobBuilder:
    world.raw["status"] = from_later(world.raw["status"])
    dreaming = {**world.raw["status"]["conditions"][0], "type": "Dreaming"}
    world.raw["status"]["conditions"].append(dreaming)
    world.raw["status"]["restarts"]["byCause"]["Earthquake"] = 2
    return world


def test_what_a_later_version_wrote_survives_a_restart_of_a_pod_by_this_one():
    world = later_world(job(worker=2).running()).pod("worker", 1, failed(1)).reconcile().later(2).reconcile()
    world.each(ready()).reconcile()
    status = world.raw["status"]
    assert status["restarts"]["byCause"] == {"Earthquake": 2, "UserError": 1}
    assert {"Dreaming", "Running"} <= {one["type"] for one in status["conditions"]}
    assert all("later" in one for one in status["conditions"] if one["type"] not in {"Restarting", "Invalid"})
    for place in (
        status,
        status["restarts"],
        status["strategy"],
        status["replicaStatuses"]["worker"],
        status["ledger"],
    ):
        assert place["later"]
    # A new incident is another one.
    assert "later" not in status["lastIncident"]


def test_the_schema_of_status_has_no_enum_and_keeps_unknown_fields_everywhere():
    schema = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    for one in objects(schema):
        assert "enum" not in one
        if isinstance(one.get("properties"), dict) and one.get("type") == "object":
            assert one["x-kubernetes-preserve-unknown-fields"] is True


LATER: dict[str, dict[str, Any]] = {
    "a later state": {"ledger": {"version": STATE_VERSION + 1}},
    "a role that this one does not know": {"ledger": {"slots": {"host": [{"attempt": 1, "indexes": "0"}]}}},
    "a strategy that this one does not know": {"strategy": {"type": "Pipeline"}},
    "another form of a field": {"ledger": {"incident": "none"}},
}


@pytest.mark.parametrize("change", LATER.values(), ids=LATER)
def test_a_status_that_this_version_cannot_act_upon_is_reported_and_left_as_it_stands(change: dict[str, Any]):
    world = job(worker=2).running()
    before = world.raw["status"]
    world.raw["status"] = {name: value | change.get(name, {}) if isinstance(value, dict) else value
                           for name, value in before.items()}  # fmt: skip
    world.vanish("worker", 1)
    plan = world.decide().plan
    assert (plan.status, plan.actions, plan.events) == (None, (), ())
    reported = report_later_status(world.raw["status"], world.job.later_status, NOW)
    running = next(one for one in reported["conditions"] if one["type"] == "Running")
    assert (running["status"], running["reason"]) == ("False", "StatusOfLaterVersion")
    assert running["message"] == reported["message"]
    assert reported == world.raw["status"] | {"conditions": reported["conditions"], "message": reported["message"]}
    others = [one for one in world.raw["status"]["conditions"] if one["type"] != "Running"]
    assert [one for one in reported["conditions"] if one["type"] != "Running"] == others
    assert report_later_status(reported, world.job.later_status, NOW) == reported


def test_of_a_finished_job_of_a_later_version_nothing_is_reported():
    status = {"conditions": [{"type": "Succeeded", "status": "True"}], "ledger": {"version": 99}}
    assert report_later_status(status, "x", NOW) == status


def test_a_status_of_the_version_before_the_state_had_one_is_acted_upon():
    older = copy.deepcopy(FULL)
    for place, name in ((older["ledger"], "version"), (older["restarts"], "inPlace"), (older, "lastRecovery")):
        del place[name]
    assert Job.parse({"metadata": {}, "spec": {}, "status": older}).later_status == ""
    added = create_merge_patch(older, JobStatus.model_validate(older).wire())
    assert added == {"ledger": {"version": STATE_VERSION}, "restarts": {"inPlace": 0}}
