"""When the end of a container is one: while its pod waits to be replaced, and under a restartPolicy of its own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.job_builder import (
    IMAGE,
    JobBuilder,
    attempts,
    done,
    failed,
    job,
    ready,
    recovered,
    template,
    terminating,
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
