"""When the end of a container is one: while its pod waits to be replaced, and under a restartPolicy of its own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dtj_operator.api.enums import Cause, Role
from tests.support.job_builder import (
    IMAGE,
    Change,
    JobBuilder,
    attempts,
    done,
    failed,
    job,
    ready,
    recovered,
    template,
    terminating,
    told,
    worker,
)

# What a pod ends with that waits to be replaced


@pytest.mark.parametrize("index", [0, 1])
def test_a_worker_that_waits_to_be_replaced_is_not_done_though_it_ends_with_0_meanwhile(index: int):
    world = recovered(job(worker=2).running().pod("worker", index, terminating()).reconcile())
    world.pod("worker", index, terminating()).reconcile()
    world.pod("worker", index, done()).reconcile()
    assert world.status.completed == {}
    assert attempts(recovered(world))[f"train-worker-{index}"] == "2"
    assert world.holds("Running")


def test_a_job_does_not_run_while_a_pod_waits_to_be_replaced_whose_node_is_back():
    world = recovered(job(worker=2).running().pod("worker", 1, terminating()).reconcile())
    world.pod("worker", 0, {"node": "n"}).pod("worker", 1, {"node": "m"}).lose("m").reconcile()
    world.lost_nodes.clear()
    world.reconcile()
    assert (world.holds("Running"), world.holds("Restarting")) == (False, True)
    world.later(1).reconcile().reap().reconcile().each(ready()).reconcile()
    assert attempts(world)["train-worker-1"] == "2"
    assert world.holds("Running")


@pytest.mark.parametrize("seconds", [0, 1])
def test_a_chief_under_never_that_fails_beside_servers_that_end_with_0_fails_the_job_before_the_action_and_after(
    seconds: int,
):
    world = job(chief=worker("Never", 1), worker=1, ps=1).running()
    world.pod("ps", 0, done()).reconcile().later(seconds).reconcile()
    world.pod("chief", 0, failed(1)).reconcile().later(1).reconcile()
    assert world.decide().reason("Failed") == "RestartPolicyNever"


# A restartPolicy of the main container's own


def on_exit_codes(operator: str, *codes: int) -> dict[str, Any]:
    rule = {"action": "Restart", "exitCodes": {"operator": operator, "values": list(codes)}}
    return {"restartPolicy": "Never", "restartPolicyRules": [rule]}


def with_own(**own: Any) -> JobBuilder:
    main = {"name": "tensorflow", "image": IMAGE, **own}
    return job(worker={"replicas": 2, "template": template(containers=[main])}).running()


RESTARTED = [
    ({"restartPolicy": "Always"}, 1),
    ({"restartPolicy": "OnFailure"}, 1),
    (on_exit_codes("In", 7), 7),
    (on_exit_codes("NotIn", 7), 1),
]


@pytest.mark.parametrize(("own", "exit_code"), RESTARTED)
def test_a_container_that_the_kubelet_restarts_for_its_own_restart_policy_has_not_failed(
    own: dict[str, Any], exit_code: int
):
    world = with_own(**own).pod("worker", 1, failed(exit_code), {"phase": "Running"}).reconcile()
    assert not world.holds("Restarting")
    recovered(world)
    assert attempts(world) == {"train-worker-0": "0", "train-worker-1": "0"}


@pytest.mark.parametrize(
    ("own", "exit_code"),
    [({"restartPolicy": "Never"}, 1), (on_exit_codes("In", 7), 1), (on_exit_codes("NotIn", 7), 7)],
)
def test_a_container_that_its_own_restart_policy_lets_end_has_failed(own: dict[str, Any], exit_code: int):
    world = with_own(**own).pod("worker", 1, failed(exit_code), {"phase": "Running"}).reconcile()
    assert world.holds("Restarting")


@pytest.mark.parametrize(("own", "exit_code"), RESTARTED)
def test_the_end_of_a_pod_is_one_whatever_restart_policy_its_container_has(own: dict[str, Any], exit_code: int):
    assert with_own(**own).pod("worker", 1, failed(exit_code)).reconcile().holds("Restarting")


def test_a_container_that_is_done_is_not_waited_for_though_the_kubelet_starts_it_once_more():
    world = with_own(restartPolicy="Always").each(done(), {"phase": "Running"}).reconcile()
    assert world.holds("Succeeded")


# Code 0 is not always a success


def stopped(disruption: str = "TerminationByKubelet", **changes: Any) -> Change:
    """A pod that the kubelet stopped and calls Failed; its program handles SIGTERM and ended with 0."""
    return failed(0, reason="Completed", disruption=disruption) | changes


@pytest.mark.parametrize("change", [stopped(), stopped("", reason="Terminated"), stopped("EvictionByEvictionAPI")])
def test_a_failed_pod_whose_container_ended_with_0_because_it_was_evicted_is_a_free_failure(change: Change):
    world = recovered(job(worker=1).running().pod("worker", 0, change))
    assert world.status.restarts.by_cause == {Cause.EVICTED: 1}
    assert (world.status.restarts.charged, world.status.completed) == (0, {})
    assert world.holds("Running")


def test_a_failed_pod_whose_container_ended_with_0_is_charged_where_nobody_says_why():
    world = recovered(job(worker=1).running().pod("worker", 0, failed(0)))
    assert (world.status.restarts.by_cause, world.status.restarts.charged) == ({Cause.UNKNOWN: 1}, 1)


@pytest.mark.parametrize(("policy", "reason"), [("Never", "RestartPolicyNever"), ("ExitCode", "")])
def test_a_failed_pod_with_code_0_fails_the_job_under_never_and_is_retried_under_exit_code(policy: str, reason: str):
    world = recovered(job(worker=worker(policy, 1)).running().pod("worker", 0, failed(0)))
    assert (world.decide().reason("Failed") if world.holds("Failed") else "") == reason


def with_side_car(change: Change, exit_code: int) -> JobBuilder:
    beside = {"name": "logs", "state": {"terminated": {"exitCode": exit_code}}}
    world = job(worker=1).running().pod("worker", 0, change)
    world.pods["train-worker-0"]["status"]["containerStatuses"].append(beside)
    return world.reconcile()


def test_a_pod_of_which_only_a_side_car_failed_has_succeeded_unless_something_is_said_of_the_pod():
    assert with_side_car(failed(0), 1).holds("Succeeded")
    assert not with_side_car(failed(0, pod_reason="DeadlineExceeded"), 137).holds("Succeeded")
    assert not with_side_car(stopped(), 137).holds("Succeeded")


@pytest.mark.parametrize("change", [stopped(), terminating()])
def test_our_trainers_word_that_it_is_done_is_success_in_every_phase(change: Change):
    world = job(worker=1).running().pod("worker", 0, {**told("done", 0), **change})
    world.pods["train-worker-0"]["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = (
        '{"class":"done"}'
    )
    assert world.reconcile().holds("Succeeded")


def test_a_pod_that_waits_to_be_replaced_or_is_being_replaced_and_says_it_is_done_is_done():
    world = recovered(job(worker=2).running().pod("worker", 0, terminating()).reconcile())
    world.pod("worker", 0, terminating()).reconcile()
    assert world.holds("Restarting")
    assert world.pod("worker", 0, {**told("done", 0), "phase": "Succeeded"}).reconcile().holds("Succeeded")
    world = job(worker=2).running().pod("worker", 0, terminating()).reconcile()
    assert world.status.attempt == 1
    assert world.pod("worker", 0, {**told("done", 0), "phase": "Succeeded"}).reconcile().holds("Succeeded")


def test_an_incident_of_pods_that_say_they_are_done_meanwhile_restarts_nothing():
    world = recovered(job(worker=2).running().pod("worker", 1, terminating()).reconcile())
    world.pod("worker", 1, terminating()).reconcile()
    world.pod("worker", 1, {**told("done", 0), "phase": "Succeeded"}).reconcile().later(5).reconcile()
    assert world.status.completed == {Role.WORKER: (1,)}
    assert (world.status.attempt, world.holds("Restarting"), world.holds("Running")) == (1, False, True)


def ended_around(how: str, seconds: int) -> JobBuilder:
    """A pod whose container ended with 0 so many seconds after its disruption or deletion began."""
    world = job(worker=1).running().pod("worker", 0, {**done(), "phase": "Running"})
    pod = world.pods["train-worker-0"]
    began = (world.now - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    if how == "disruption":
        pod["status"]["conditions"] = [
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "lastTransitionTime": began,
            }
        ]
    else:
        ends = (world.now + timedelta(seconds=30 - seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        pod["metadata"] |= {"deletionTimestamp": ends, "deletionGracePeriodSeconds": 30}
    pod["status"]["phase"] = "Succeeded"
    return world.reconcile()


@pytest.mark.parametrize("how", ["disruption", "deletion"])
def test_code_0_under_a_disruption_or_a_deletion_is_success_only_if_it_came_first(how: str):
    assert ended_around(how, -2).holds("Succeeded")
    world = ended_around(how, 2)
    assert not world.holds("Succeeded")
    assert world.status.restarts.charged == 0
    assert world.status.restarts.total == 1


def test_a_container_that_ended_with_0_is_done_once_the_kubelet_says_that_its_pod_has_not_failed():
    world = job(worker=1).running().pod("worker", 0, {**done(), "phase": "Running"}).reconcile().later(5).reconcile()
    assert world.status.completed == {}
    assert world.status.last_incident is None
    world.pod("worker", 0, stopped()).reconcile()
    assert not world.holds("Succeeded")
    world = job(worker=1).running().pod("worker", 0, {**done(), "phase": "Running"}).reconcile()
    assert world.pod("worker", 0, {"phase": "Succeeded"}).reconcile().holds("Succeeded")
