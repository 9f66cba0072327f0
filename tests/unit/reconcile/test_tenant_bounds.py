"""Bounds on what a tenant gives: one operator serves all, so no job may cost the others much."""

from __future__ import annotations

import time
from typing import Any

import pytest
import re2

from dtj_operator.api.constants import REPLICAS_MAX, TF_CONFIG_MAX
from dtj_operator.api.enums import Role
from dtj_operator.api.persisted_state import PersistedState
from dtj_operator.builders.tf_config import tf_config, tf_config_problem
from dtj_operator.cache.transforms import pod_from_json
from dtj_operator.kube.errors import error_from_response
from dtj_operator.reconcile.failures import failure_rules
from dtj_operator.reconcile.state.index_ranges import parse_ranges
from dtj_operator.reconcile.state.replicas import read_records
from tests.support.job_builder import JobBuilder, attempts, failed, job, pending, ready, restarted, unschedulable

LONGEST_NAME = "a" * 40
LONGEST_DOMAIN = "d" * 60 + ".cluster.local"


def large(workers: int, **roles: Any) -> JobBuilder:
    """A job of the longest name."""
    return job(LONGEST_NAME, worker=workers, **roles).spec(clusterDomain=LONGEST_DOMAIN)


# TF_CONFIG


@pytest.mark.parametrize(
    "replicas",
    [{"worker": 2}, {"worker": 11}, {"chief": 1, "worker": 101, "ps": 10, "evaluator": 1}, {"worker": 1001}],
    ids=str,
)
def test_the_length_of_tf_config_is_counted_without_making_it(replicas: dict[str, int], monkeypatch):
    parsed = job(**replicas).spec(clusterDomain="k\u00f6ln.local").job
    longest = max(len(tf_config(parsed, Role(role), count - 1).encode()) for role, count in replicas.items())
    assert tf_config_problem(parsed) == ""
    monkeypatch.setattr("dtj_operator.builders.tf_config.TF_CONFIG_MAX", longest)
    assert tf_config_problem(parsed) == ""
    monkeypatch.setattr("dtj_operator.builders.tf_config.TF_CONFIG_MAX", longest - 1)
    assert f"{longest:,} bytes" in tf_config_problem(parsed)


def test_a_tf_config_longer_than_an_environment_string_is_invalid_before_anything_is_made():
    world = large(REPLICAS_MAX)
    outcome = world.act()
    assert outcome.reason("Invalid") == "TFConfigTooLong"
    assert outcome.plan.actions == ()
    assert outcome.events.count("Invalid") == 1
    assert outcome.status.start_time is None
    assert f"{TF_CONFIG_MAX:,}" in outcome.status.message
    assert f"{LONGEST_NAME}-worker-{REPLICAS_MAX - 1}.{LONGEST_NAME}.team" in outcome.status.message
    assert "Shorten the job's name" in outcome.status.message
    assert world.act().events == []


def test_a_job_whose_tf_config_was_too_long_starts_when_it_has_fewer_replicas():
    world = large(REPLICAS_MAX)
    world.act()
    world.raw["spec"]["replicaSpecs"]["worker"]["replicas"] = 2
    outcome = world.spec(clusterDomain="").act()
    assert len(outcome.creates) == 2
    assert outcome.reason("Invalid") == "Valid"


def test_a_running_job_that_is_scaled_beyond_the_length_of_tf_config_goes_on_as_it_is():
    world = large(2).running()
    world.raw["spec"]["replicaSpecs"]["worker"]["replicas"] = REPLICAS_MAX
    world.raw["metadata"]["generation"] += 1
    outcome = world.act()
    assert outcome.reason("Invalid") == "TFConfigTooLong"
    assert outcome.creates == outcome.deletes == []
    assert outcome.status.attempt == 0


# Patterns


def test_a_pattern_that_takes_too_much_memory_is_invalid_and_costs_little():
    rules = [{"name": str(n), "messagePattern": rf"\pL{{400}}a{n}", "action": "Ignore"} for n in range(32)]
    began = time.thread_time()
    outcome = job(worker=1).spec(failurePolicy={"rules": rules}).act()
    assert time.thread_time() - began < 0.25
    assert outcome.creates == []
    assert outcome.reason("Invalid") == "BadPattern"
    assert "too large" in outcome.status.message
    assert "64 KiB" in outcome.status.message


WORST = r"(a|b|ab){43}c"
"""Twelve times allowed, and among the patterns that RE2 takes longest to match."""


def worst_rules(count: int) -> list[dict[str, Any]]:
    return [{"name": str(n), "messagePattern": f"{WORST}{n:02}", "action": "Ignore"} for n in range(count)]


def test_the_patterns_of_a_job_are_bounded_together():
    outcome = job(worker=1).spec(failurePolicy={"rules": worst_rules(32)}).act()
    assert outcome.creates == []
    assert outcome.reason("Invalid") == "BadPattern"
    assert "2,500 together that are allowed: shorten them" in outcome.status.message
    assert job(worker=1).spec(failurePolicy={"rules": worst_rules(10)}).act().creates


def test_patterns_cost_little_however_many_pods_fail_at_once_with_the_worst_of_messages():
    rules = worst_rules(10)
    world = job(worker=300).spec(failurePolicy={"rules": rules, "maxRestarts": 9}).running()
    plain = job(worker=300).spec(failurePolicy={"maxRestarts": 9}).running()
    for index in range(300):
        for one in (world, plain):
            one.pod("worker", index, failed(1, message="ab" * 2000 + str(index)))
    seconds = []
    for one in (world, plain):
        began = time.thread_time()
        one.decide()
        seconds.append(time.thread_time() - began)
    assert seconds[0] - seconds[1] < 0.5


@pytest.mark.parametrize("suspend", [False, True], ids=["running", "suspended"])
def test_restarts_by_the_kubelet_that_are_compared_with_patterns_are_counted_a_few_in_a_pass_and_all_in_the_end(
    suspend: bool,  # noqa: FBT001
):
    always = {"replicas": 30, "restartPolicy": "Always"}
    world = (
        job(chief=1, worker=1, ps=always).spec(failurePolicy={"rules": worst_rules(10), "maxRestarts": 99}).running()
    )
    for index in range(30):
        world.pod("ps", index, restarted(1, 1, message="ab" * 2000))
    if suspend:
        world.spec(suspend=True)
    began = time.thread_time()
    assert world.act().plan.requeue_at == world.now
    assert time.thread_time() - began < 1.0
    world.reconcile(20)
    assert world.status.restarts.total == 30


def test_a_pattern_is_compiled_once_however_many_passes_there_are(monkeypatch):
    compiled = []
    compile_pattern = re2.compile

    def count(pattern: str, options: Any) -> Any:
        compiled.append((pattern, options.max_mem))
        return compile_pattern(pattern, options)

    monkeypatch.setattr(re2, "compile", count)
    failure_rules._refusal.cache_clear()
    failure_rules._size.cache_clear()
    world = job(worker=1).spec(failurePolicy={"rules": [{"messagePattern": "once", "action": "Ignore"}]})
    for _ in range(5):
        world.act()
    failure_rules._refusal.cache_clear()
    assert compiled == [("once", failure_rules.PATTERN_BYTES)] * 2


@pytest.mark.parametrize("pattern", [r"\pL+x", r"(?i)out of memory|oom|cuda.*error", r"\w{1,200}foo", "x" * 256])
def test_patterns_that_people_write_are_fine(pattern: str):
    rules = [{"messagePattern": pattern, "action": "Ignore"}]
    assert job(worker=1).spec(failurePolicy={"rules": rules}).act().creates == ["train-worker-0"]


# Messages of the server


def test_a_refusal_of_half_a_megabyte_is_cut_where_it_is_read():
    error = error_from_response(422, {"message": "no" * 250_000}, idempotent=False, retry_after=None)
    assert len(error.message) == len(str(error)) == 1024


@pytest.mark.parametrize(
    "change",
    [pending("ImagePullBackOff", "x" * 500_000), unschedulable("x" * 500_000), failed(1, message="x" * 500_000)],
    ids=["waiting", "unschedulable", "terminated"],
)
def test_no_message_about_a_pod_makes_status_long(change):
    world = job(worker=2).running().pod("worker", 1, change)
    for _ in range(3):
        world.later(1).reconcile()
    assert len(str(world.raw["status"])) < 20_000


# Indexes


@pytest.mark.parametrize(
    "text",
    ["0-999999999", "0-99999999999999999999", "1999999999", "9" * 5000, "\u00b2", ",".join(["0-1999"] * 1000), "5-1"],
    ids=range(7),
)
def test_indexes_that_are_read_back_are_bounded(text: str):
    assert len(parse_ranges(text)) <= REPLICAS_MAX
    groups = {"worker": [{"attempt": 0, "indexes": text, "seen": text}]}
    assert len(read_records(PersistedState.model_validate({"slots": groups}))) <= REPLICAS_MAX


def claim_attempt(pod: dict[str, Any], attempt: str) -> None:
    (found,) = [entry for entry in pod["spec"]["containers"][0]["env"] if entry["name"] == "DTJ_ATTEMPT"]
    found["value"] = attempt


@pytest.mark.parametrize("attempt", ["7", str(2**53 - 1), str(2**53), "9" * 5000], ids=range(4))
def test_an_attempt_that_status_does_not_know_raises_none_and_its_pod_is_replaced_once(attempt: str):
    world = job(worker=2).running()
    claim_attempt(world.pods["train-worker-1"], attempt)
    if len(attempt) <= 16 and int(attempt) < 2**53:
        assert world.act().plan.actions == ()
        world.pod("worker", 1, failed(1)).reconcile().later(2).reconcile()
    else:  # none that the operator writes, so the pod is another's
        world.reconcile().reap().reconcile()
    world.each(ready()).reconcile()
    assert (world.status.attempt, world.status.restarts.total) == (1, 1)
    assert world.holds("Running")
    assert world.act().plan.actions == ()


def test_a_restart_of_the_whole_job_replaces_a_pod_of_an_attempt_that_status_does_not_know_once():
    world = job(worker=2).spec(failurePolicy={"restartScope": "Job"}).running()
    claim_attempt(world.pods["train-worker-1"], "7")
    world.pod("worker", 0, failed(1)).reconcile().later(2).reconcile().later(1).reconcile().reap().reconcile()
    world.each(ready()).reconcile()
    assert (world.status.attempt, world.status.restarts.total) == (1, 1)
    assert attempts(world) == {"train-worker-0": "1", "train-worker-1": "1"}


def test_a_pod_label_with_a_huge_index_makes_nothing_large():
    world = job(worker=1).running()
    world.pods["train-worker-0"]["metadata"]["labels"]["dtj.dev/index"] = str(10**15)
    assert pod_from_json(world.pods["train-worker-0"]).name == "train-worker-0"
    assert len(str(world.act().status.wire())) < 20_000


# Replicas


def test_a_job_that_an_older_schema_let_through_with_too_many_replicas_is_invalid_and_names_the_limit():
    outcome = job(worker=REPLICAS_MAX + 1).act()
    assert outcome.plan.actions == ()
    assert "Invalid" in outcome.true()
    assert str(REPLICAS_MAX) in outcome.status.message
