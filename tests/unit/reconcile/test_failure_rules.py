"""Failure rules: before restartPolicy, the first that matches."""

from __future__ import annotations

from typing import Any

from dtj_operator.api.enums import Cause
from dtj_operator.api.status import Restarts
from tests.support.job_builder import done, evicted, failed, job, recovered, restarted, worker


def rules(*given: dict[str, Any]) -> dict[str, Any]:
    return {"failurePolicy": {"rules": list(given)}}


def test_a_fail_job_rule_ends_the_job():
    rule = {"name": "full", "messagePattern": "disk .*full", "action": "FailJob"}
    world = job(worker=2).spec(**rules(rule)).running()
    world.pod("worker", 1, failed(1, message="the disk is full")).reconcile().later(1).reconcile()
    assert world.decide().reason("Failed") == "FailedByRule"
    assert "Failure rule full" in world.status.message


def test_an_ignored_failure_is_never_charged():
    rule = {"exitCodes": {"operator": "In", "values": [3]}, "action": "Ignore"}
    world = job(worker=worker("Never")).spec(**rules(rule)).running()
    for _ in range(5):
        recovered(world.pod("worker", 1, failed(3)).reconcile().later(1))
    assert world.status.restarts == Restarts(total=5, charged=0, by_cause={Cause.USER_ERROR: 5})
    assert not world.status.finished


def test_a_rule_that_does_not_count_is_free_with_backoff():
    rule = {"action": "RestartPod", "countTowardsLimit": False}
    world = job(worker=2).spec(**rules(rule)).running()
    recovered(world.pod("worker", 1, failed(1)).reconcile().later(1))
    world.pod("worker", 1, failed(1)).reconcile()
    assert world.later(1).act().creates == []
    assert world.later(1).act().creates == ["train-worker-1"]
    assert world.status.restarts.charged == 0


def test_a_rule_that_counts_charges_a_disruption_too():
    rule = {"reasons": ["Evicted"], "action": "RestartJob"}
    world = job(worker=2).spec(**rules(rule)).running().pod("worker", 1, evicted()).reconcile().later(1)
    assert world.act().deletes == ["train-worker-0", "train-worker-1"]
    assert world.status.restarts.charged == 1


def test_all_codes_but_some_are_codes_of_failures():
    rule = {"exitCodes": {"operator": "NotIn", "values": [42, 75]}, "action": "FailJob"}
    for server in (worker("Always", 1), worker("OnFailure", 1)):
        world = job(chief=1, worker=1, ps=server).spec(**rules(rule)).running()
        in_place = server["restartPolicy"] == "Always"
        world.pod("ps", 0, restarted(1, 0) if in_place else done()).reconcile()
        assert recovered(world).holds("Running")
        assert world.status.restarts == Restarts(total=1, charged=0, by_cause={Cause.UNKNOWN: 1})


def test_a_server_that_the_kubelet_starts_again_after_0_is_free_whatever_the_rules_say():
    world = job(chief=1, worker=1, ps=worker("Always", 1)).spec(**rules({"action": "RestartPod"})).running()
    for times in range(1, 6):
        world.pod("ps", 0, restarted(times, 0)).reconcile()
    assert world.status.restarts.charged == 0
    assert world.holds("Running")


def test_the_first_matching_rule_wins_and_roles_restrict_it():
    given = rules(
        {"roles": ["ps"], "action": "FailJob"},
        {"exitCodes": {"operator": "NotIn", "values": [1]}, "action": "FailJob"},
        {"action": "Ignore"},
    )
    world = job(worker=2).spec(**given).running().pod("worker", 1, failed(1)).reconcile().later(1).reconcile()
    assert world.status.phase == "Restarting"
    assert world.status.restarts.charged == 0
