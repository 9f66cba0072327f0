"""Sentences of the contract that are easily overlooked, each as a test."""

from __future__ import annotations

import pytest

from dtj_operator.reconcile.state.blocked_writes import BlockedReason
from dtj_operator.reconcile.state.plan import CreatePod
from tests.support.job_builder import (
    Change,
    done,
    failed,
    job,
    not_ready,
    pending,
    ready,
    restarted,
    template,
    terminating,
    told,
)


def node_not_ready(since: str = "2026-01-01T12:00:00Z") -> Change:
    """What the node controller writes on the pods of a silent node."""
    lost = {"type": "Ready", "status": "False", "reason": "NodeNotReady", "lastTransitionTime": since}
    return {"phase": "Running", "conditions": [lost]}


# Nodes that may not be read


def test_without_the_right_to_read_nodes_a_node_is_lost_by_its_pods_not_ready_condition():
    world = job(worker=2).spec(failurePolicy={"nodeLossSeconds": 30}).running().pod("worker", 1, node_not_ready())
    waiting = world.act()
    assert waiting.creates == []
    assert waiting.plan.requeue_at is not None
    assert (waiting.plan.requeue_at - world.now).total_seconds() == 30
    outcome = world.later(30).act()
    assert outcome.status.restarts.by_cause == {"NodeLost": 1}
    assert outcome.status.restarts.charged == 0
    assert [action.force for action in outcome.plan.actions if hasattr(action, "force")] == [True]
    assert outcome.creates == ["train-worker-1"]


def test_a_pod_that_the_taint_manager_deletes_on_a_silent_node_is_replaced_by_force():
    world = job(worker=2).running().pod("worker", 1, node_not_ready(), terminating()).reconcile().later(30)
    assert world.reconcile().status.restarts.total == 1
    assert "deletionTimestamp" not in world.pods["train-worker-1"]["metadata"]


def test_a_pod_that_is_not_ready_for_its_own_reasons_is_no_lost_node():
    world = job(worker=2).running().pod("worker", 1, not_ready()).reconcile()
    assert world.later(3600).act().creates == []


def test_what_replaces_a_lost_pod_is_wished_elsewhere_and_all_other_pods_anywhere():
    world = job(worker=2)
    assert {action.avoid for action in world.decide().plan.actions if isinstance(action, CreatePod)} == {()}
    node = world.running().node_of("worker", 1)
    outcome = world.lose(node).act()
    assert [action.avoid for action in outcome.plan.actions if isinstance(action, CreatePod)] == [(node,)]


# Restarts by the kubelet


def test_a_restart_in_place_is_recovered_when_the_job_is_running_again():
    world = job(chief=1, worker=1, ps={"replicas": 1, "restartPolicy": "Always"}).running()
    world.pod("ps", 0, restarted(1, 1), not_ready()).reconcile()
    assert world.status.last_incident is not None
    assert world.status.last_incident.recovered_at is None
    world.later(7).pod("ps", 0, ready()).reconcile()
    assert world.status.last_incident.recovered_at == world.now
    assert world.status.last_incident.recovery_seconds == 7
    assert world.seen("Recovered") == ["Recovered from UserError in place after 7.0 s."]


def test_the_time_that_a_job_was_suspended_is_no_recovery_of_a_restart_in_place():
    world = job(chief=1, worker=1, ps={"replicas": 1, "restartPolicy": "Always"}).running()
    world.pod("ps", 0, restarted(1, 1), not_ready()).reconcile()
    world.spec(suspend=True).reconcile().reap().later(3600).spec(suspend=False).reconcile().each(ready()).reconcile()
    assert world.status.phase == "Running"
    assert world.seen("Recovered") == []


def test_every_restart_in_place_is_told_also_an_evaluators_and_one_within_an_incident():
    always = {"replicas": 1, "restartPolicy": "Always"}
    world = (
        job(chief=1, worker=1, ps=always, evaluator=always).running().pod("evaluator", 0, restarted(1, 3)).reconcile()
    )
    assert world.seen("PodFailed") == [
        "train-evaluator-0 ended with exit code 3 (UserError); the kubelet restarts it in place."
    ]
    assert world.status.restarts.total == 0
    world.pod("worker", 0, failed(1)).reconcile().pod("ps", 0, restarted(1, 75)).reconcile()
    assert world.seen("PodFailed")[-1].startswith("train-ps-0 ended with exit code 75")


# Evaluators


def test_an_evaluator_under_never_stays_failed_but_is_replaced_after_a_disruption():
    evaluator = {"replicas": 1, "restartPolicy": "Never"}
    world = (
        job(worker=1, evaluator=evaluator).running().pod("evaluator", 0, failed(1)).reconcile().later(60).reconcile()
    )
    assert world.status.phase == "Running"
    assert world.pods["train-evaluator-0"]["status"]["phase"] == "Failed"
    assert world.seen("PodFailed") == ["Pod train-evaluator-0 failed with exit code 1 (UserError); training goes on."]
    world = job(worker=1, evaluator=evaluator).running()
    outcome = world.pod("evaluator", 0, failed(143, disruption="EvictionByEvictionAPI")).act()
    assert outcome.creates == ["train-evaluator-0"]
    assert outcome.status.restarts.total == 0


# Warnings once per change


def test_what_a_template_loses_is_said_again_when_the_spec_was_edited():
    world = job(worker={"template": template(hostname="h")}).reconcile()
    assert len(world.seen("TemplateOverridden")) == 1
    world.spec(suspend=True).reconcile().spec(clusterDomain="example.org").reconcile()
    assert len(world.seen("TemplateOverridden")) == 2
    world.spec(suspend=False).reconcile()
    assert len(world.seen("TemplateOverridden")) == 2


def test_a_suspended_job_is_warned_once_for_an_edit_in_the_update_that_resumes():
    world = job(worker=2).spec(suspend=True).reconcile()
    assert world.seen("NoCheckpoints") == []
    world.spec(suspend=False, checkpoint={"directory": ""}).reconcile()
    assert len(world.seen("NoCheckpoints")) == 1


def test_a_job_of_one_pod_is_warned_when_it_gets_peers():
    world = job(worker=1).spec(checkpoint={"directory": ""}).running()
    assert world.seen("NoCheckpoints") == []
    world.scale(3).reconcile().each(ready()).reconcile().scale(4).reconcile()
    assert len(world.seen("NoCheckpoints")) == 1


# A deletion by hand


def test_a_deletion_by_hand_is_deleted_whatever_the_bare_code_of_the_end_that_it_brings():
    assert _cause_of(failed(143), terminating()) == {"Deleted": 1}
    assert _cause_of(terminating()) == {"Deleted": 1}


def test_a_trainer_that_has_said_preempted_by_the_time_of_the_judgement_is_preempted():
    assert _cause_of(told("preempted", 42), terminating()) == {"Preempted": 1}


def test_a_cause_is_never_revised():
    world = job(worker=2).running().pod("worker", 1, terminating()).reconcile()
    world.pod("worker", 1, told("preempted", 42)).reconcile().reap().reconcile()
    assert world.status.restarts.by_cause == {"Deleted": 1}


def _cause_of(*changes: Change) -> dict[str, int]:
    world = job(worker=2).running().pod("worker", 1, *changes).reconcile()
    return {str(cause): count for cause, count in world.status.restarts.by_cause.items()}


@pytest.mark.parametrize(("code", "cause"), [(42, "Preempted"), (143, "Preempted"), (137, "Killed"), (75, "PeerLost")])
@pytest.mark.parametrize("word", ["TrainerOfSomebodyElse", "", None, ["preempted"]])
def test_a_code_is_bare_where_the_class_beside_it_is_none_of_ours(word: str, code: int, cause: str):
    world = job(worker=2).running().pod("worker", 1, told(word, code)).reconcile().later(1).reconcile()
    assert world.status.restarts.by_cause == {cause: 1}


# Attempts


def test_a_pod_that_could_not_be_made_before_is_of_the_attempt_at_which_it_is_made():
    world = job(worker=2)
    world.act()
    world.vanish("worker", 1).refuse(BlockedReason.QUOTA_EXCEEDED, "train-worker-1").reconcile()
    world.pod("worker", 0, failed(1, disruption="PreemptionByScheduler")).reconcile()
    world.blocked_writes.clear()
    world.reconcile()
    assert {world.label("worker", index, "attempt") for index in (0, 1)} == {"1"}
    world.pod("worker", 1, failed(1)).reconcile().later(1).reconcile()
    assert world.status.restarts.by_cause == {"Preempted": 1, "UserError": 1}


# What is Running, and what only was


def test_a_pods_own_condition_makes_it_ready():
    world = job(worker=1).reconcile().each({"phase": "Pending", **_ready_alone()}).reconcile()
    assert world.holds("Running")


def test_a_job_is_starting_when_a_pod_of_it_runs_and_pending_when_it_has_none():
    world = job(worker=2).reconcile().each({"node": ""}).reconcile()
    assert world.status.phase == "Pending"
    world.pod("worker", 0, ready()).reconcile()
    assert world.status.phase == "Starting"
    world.each(ready()).reconcile().scale(0).reconcile().reap().reconcile()
    assert world.status.phase == "Pending"


def test_a_finished_job_says_that_it_neither_runs_nor_restarts():
    world = job(worker=1).running().each(done()).reconcile()
    assert {(str(c.type), c.status) for c in world.status.conditions} == {
        ("Created", "True"),
        ("Running", "False"),
        ("Restarting", "False"),
        ("Succeeded", "True"),
    }


def _ready_alone() -> Change:
    return {"conditions": [{"type": "Ready", "status": "True"}]}


# Specs that cannot be acted upon


@pytest.mark.parametrize("suspend", [False, True], ids=["at creation", "at the resume"])
def test_a_job_whose_pattern_re2_refuses_has_not_started_so_that_it_can_be_corrected(suspend: bool):  # noqa: FBT001
    rule = {"messagePattern": "(?=a)", "action": "Ignore"}
    world = (
        job(worker=1).spec(suspend=suspend, failurePolicy={"rules": [rule]}).reconcile().spec(suspend=False).reconcile()
    )
    assert world.holds("Invalid")
    assert world.status.phase == "Pending"
    assert world.status.start_time is None
    world.spec(failurePolicy={"rules": []}).reconcile()
    assert world.status.start_time is not None
    assert world.pods.keys() == {"train-worker-0"}
    assert world.status.attempt == suspend
    assert not world.holds("Invalid")


# Transient blocked


def test_an_image_that_cannot_be_pulled_for_a_restart_in_place_shows_too():
    world = job(chief=1, worker=1, ps={"replicas": 1, "restartPolicy": "Always"}).running()
    waiting = pending("ImagePullBackOff", "Back-off pulling image", node="n1")
    world.pod("ps", 0, not_ready(), {**waiting, "phase": "Running"}).reconcile()
    assert world.decide().reason("Running") == "ImagePullFailed"


def test_an_operator_that_comes_back_does_not_forget_that_the_spec_is_refused():
    world = (
        job(worker=1).refuse(BlockedReason.INVALID, "train-worker-0", "spec.containers[0].image: required").reconcile()
    )
    told = world.status
    world.blocked_writes.clear()  # they live in the memory of one process
    outcome = world.decide()
    assert outcome.creates == ["train-worker-0"]
    assert outcome.status.conditions == told.conditions
    assert outcome.events == []
    world.reconcile()
    assert not world.holds("Invalid")


def test_a_refused_spec_that_was_corrected_is_not_called_invalid_any_more():
    world = job(worker=1).refuse(BlockedReason.INVALID, "train-worker-0").reconcile().spec(suspend=True).reconcile()
    world.blocked_writes.clear()
    world.spec(suspend=False, clusterDomain="example.org")
    assert not world.act().holds("Invalid")


@pytest.mark.parametrize("suspended", [True, False], ids=["while suspended", "with the resume"])
def test_a_second_spec_that_the_server_refuses_is_told_as_the_first_was(suspended: bool):  # noqa: FBT001
    world = job(worker=1)
    world.act()
    world.vanish("worker", 0).refuse(BlockedReason.INVALID, "train-worker-0", "spec.a: wrong").reconcile()
    world.spec(suspend=True).reconcile()
    assert world.holds("Invalid")
    if suspended:
        world.spec(clusterDomain="example.org").reconcile()
        assert not world.holds("Invalid")
    world.spec(suspend=False, clusterDomain="example.org")
    assert not world.act().holds("Invalid")
    world.vanish("worker", 0).refuse(BlockedReason.INVALID, "train-worker-0", "spec.b: wrong").reconcile()
    assert [message.partition(": ")[2] for message in world.seen("Invalid")] == ["spec.a: wrong", "spec.b: wrong"]


def test_a_refused_spec_is_told_once_although_something_else_of_it_was_edited():
    world = job(worker=1)
    world.act()
    world.vanish("worker", 0).refuse(BlockedReason.INVALID, "train-worker-0").reconcile()
    world.spec(ttlSecondsAfterFinished=60)
    assert world.act().holds("Invalid")
    world.vanish("worker", 0).refuse(BlockedReason.INVALID, "train-worker-0").reconcile()
    assert len(world.seen("Invalid")) == 1


def test_a_suspended_job_tells_of_a_pattern_that_re2_refuses_and_of_one_that_was_corrected():
    rule = {"messagePattern": "(?=a)", "action": "Ignore"}
    world = job(worker=1).spec(suspend=True, failurePolicy={"rules": [rule]}).reconcile()
    assert world.holds("Suspended")
    assert world.holds("Invalid")
    assert not world.spec(failurePolicy={"rules": []}).reconcile().holds("Invalid")
    assert len(world.seen("Invalid")) == 1


def test_a_drift_that_a_suspension_has_accepted_is_not_invalid_any_more():
    world = job(worker=1).running().spec(clusterDomain="example.org").reconcile()
    assert world.holds("Invalid")
    assert not world.spec(suspend=True).reconcile().holds("Invalid")


# What is in the way of pods that training does not wait for


@pytest.mark.parametrize("kind", [BlockedReason.QUOTA_EXCEEDED, BlockedReason.NAME_TAKEN, BlockedReason.POD_REFUSED])
def test_what_keeps_an_evaluator_from_being_made_is_told_beside_running(kind: BlockedReason):
    world = job(worker=1, evaluator=1)
    world.act()
    world.vanish("evaluator", 0).refuse(kind, "train-evaluator-0", "no room").reconcile()
    world.pod("worker", 0, ready()).reconcile()
    told = "Training runs, but train-evaluator-0: no room"
    assert world.holds("Running")
    assert world.status.message == told
    world.blocked_writes.clear()  # they live in the memory of one process
    assert world.decide().status.message == told
    assert world.reconcile().status.message == "All pods are ready."


def test_an_evaluators_image_that_cannot_be_pulled_is_told_once_also_after_a_recovery():
    world = job(worker=1, evaluator=1).running().pod("worker", 0, failed(137)).reconcile().later(1).reconcile()
    world.pod("worker", 0, ready()).pod("evaluator", 0, pending("ImagePullBackOff", "Back-off", node="n1")).reconcile()
    assert world.status.message == "Training runs, but pod train-evaluator-0: Back-off"
    writes = world.writes
    world.pod("evaluator", 0, pending("ErrImagePull", "not found", node="n1")).reconcile()
    assert world.writes == writes


def test_a_foreign_service_in_the_place_of_a_running_jobs_own_is_told():
    world = job(worker=2).running()
    assert world.service is not None
    world.service["metadata"] |= {"uid": "another", "ownerReferences": []}
    assert world.reconcile().status.message.startswith("Training runs, but service train: exists and is not this job's")


def test_a_service_that_cannot_be_made_again_is_told_beside_running():
    world = job(worker=2).running().refuse(BlockedReason.QUOTA_EXCEEDED, "train", "exceeded quota: services")
    world.service = None
    assert world.act().status.message == "Training runs, but train: exceeded quota: services"


def test_the_reason_why_training_does_not_run_is_never_an_evaluators():
    world = job(worker=2, evaluator=1)
    world.act()
    world.vanish("evaluator", 0).refuse(
        BlockedReason.POD_REFUSED, "train-evaluator-0", "violates PodSecurity"
    ).reconcile()
    world.pod("worker", 0, ready()).pod("worker", 1, pending("ImagePullBackOff", "Back-off", node="n1"))
    assert world.reconcile().decide().reason("Running") == "ImagePullFailed"
    world = job(worker=2, evaluator=1).running().pod("evaluator", 0, pending("ErrImagePull", "x", node="n1"))
    assert world.pod("worker", 1, not_ready()).reconcile().decide().reason("Running") == "NotReady"


# Side-cars


def test_an_evaluator_that_is_done_is_not_waited_for_because_its_side_car_runs_on():
    world = job(worker=1, evaluator=1).spec(successPolicy={"waitForEvaluatorSeconds": 600}, ttlSecondsAfterFinished=5)
    world.running().pod("evaluator", 0, {**done(), "phase": "Running"})
    side_car = {"name": "logs", "state": {"running": {}}}
    world.pods["train-evaluator-0"]["status"]["containerStatuses"].append(side_car)
    world.pod("worker", 0, done()).reconcile().reap().reconcile()
    assert "train-evaluator-0" not in world.pods
    assert world.later(5).reconcile().job_deleted
