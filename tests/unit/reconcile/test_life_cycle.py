"""From creation to the end: success, clean-up, deadlines, problems of pods."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dtj_operator.kube import serializer
from dtj_operator.reconcile.state.blocked_writes import BlockedReason
from dtj_operator.reconcile.state.plan import CreatePod, CreateService, DeleteJob, DeleteService, StatusWrite
from tests.support.job_builder import (
    NOW,
    attempts,
    done,
    ended_beside,
    evicted,
    failed,
    job,
    not_ready,
    pending,
    ready,
    template,
    terminating,
    told,
    unschedulable,
    worker,
)

# Creation


def test_a_single_replica_job_creates_one_pod_and_one_service():
    outcome = job(worker=1).act()
    assert outcome.plan.actions == (CreateService(), CreatePod("worker", 0, 0))
    assert outcome.status.start_time == NOW
    assert outcome.events == ["Created"]


def test_four_workers_and_two_ps_create_exactly_six_pods():
    world = job(chief=1, worker=3, ps=2)
    assert len(world.act().creates) == 6
    assert [world.act().creates for _ in range(3)] == [[], [], []]


def test_partial_existence_is_completed_not_duplicated():
    world = job(chief=1, worker=3, ps=2)
    world.act()
    for role, index in (("worker", 1), ("worker", 2), ("ps", 1)):
        world.vanish(role, index)
    assert world.act().creates == ["train-worker-1", "train-worker-2", "train-ps-1"]


def test_pending_replicas_cause_no_writes():
    world = job(worker=6).reconcile().each(pending()).reconcile()
    writes = world.writes
    for _ in range(5):
        assert world.later(1).act().plan.actions == ()
    assert world.writes == writes


def test_until_all_pods_exist_status_is_written_once():
    world = job(worker=5)
    outcome = world.act()
    assert world.writes == 1
    assert len(outcome.plan.events) == 1
    assert world.act().plan.write is StatusWrite.DELAYED


def test_a_whole_life_takes_few_status_writes():
    world = job(worker=5).reconcile().each(ready()).reconcile().each(done()).reconcile()
    assert world.status.phase == "Succeeded"
    assert world.writes + len(world.events) <= 8


def test_an_idle_job_is_left_alone():
    world = job(worker=3).running()
    before = world.writes, len(world.events)
    for _ in range(100):
        plan = world.later(7).act().plan
        assert plan.status is not None
        assert plan.actions == ()
        assert plan.events == ()
    assert (world.writes, len(world.events)) == before


def test_a_plan_without_change_returns_the_very_same_status():
    snapshot = job(worker=3).running().snapshot()
    from dtj_operator.reconcile.decide import decide

    assert decide(snapshot, NOW).status is snapshot.job.status


def test_started_is_said_once_and_running_needs_every_pod():
    world = job(worker=2, ps=1, chief=1).reconcile()
    world.pod("worker", 0, ready()).pod("worker", 1, ready()).pod("chief", 0, ready()).reconcile()
    assert not world.holds("Running")
    assert world.status.phase == "Starting"
    assert "train-ps-0" in world.status.message
    world.pod("ps", 0, ready()).reconcile()
    assert world.holds("Running")
    assert world.status.workers == "3/3"
    world.pod("ps", 0, not_ready()).reconcile()
    assert world.decide().reason("Running") == "NotReady"
    world.pod("ps", 0, ready()).reconcile()
    assert len(world.seen("Started")) == 1


def test_a_multi_pod_job_without_checkpoints_is_warned_about():
    world = job(worker=2).spec(checkpoint={"directory": ""})
    assert "NoCheckpoints" in world.act().events
    assert "step 0" in world.running().status.message
    assert "NoCheckpoints" not in job(worker=1).spec(checkpoint={"directory": ""}).act().events


def test_a_pod_level_restart_policy_conflict_is_reported_once():
    world = job(worker={"template": template(restartPolicy="Always", hostname="h")})
    event = world.act().event("TemplateOverridden")
    assert event.type == "Warning"
    assert "worker: restartPolicy Always" in event.message
    assert "worker: hostname" in event.message
    assert world.pods["train-worker-0"]["spec"]["restartPolicy"] == "Never"
    assert world.reconcile().seen("TemplateOverridden") == [event.message]


def test_the_choice_of_strategy_stands_in_status_with_its_reason():
    choice = job(worker=2).act().status.strategy
    assert choice
    assert (choice.type, choice.reason) == ("MultiWorkerMirrored", "2 worker pods")


# Ownership


def test_a_job_that_somebody_else_manages_is_never_touched():
    world = job(worker=2).spec(managedBy="kueue.x-k8s.io/multikueue")
    assert world.decide().plan.status is None
    assert world.spec(suspend=True).decide().plan.events == ()
    assert job(worker=1).spec(managedBy="dtj.dev/operator").act().creates


def test_a_job_that_is_being_deleted_is_left_to_the_garbage_collector():
    world = job(worker=2).running()
    world.raw["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    assert world.decide().plan.status is None


def test_a_foreign_pod_in_a_slots_name_is_never_touched():
    world = job(worker=2)
    world.act()
    world.pods["train-worker-1"]["metadata"]["ownerReferences"] = []
    outcome = world.act()
    assert outcome.plan.actions == ()
    assert outcome.reason("Running") == "NameTaken"
    del world.pods["train-worker-1"]
    assert world.act().creates == ["train-worker-1"]


def test_a_recreated_job_waits_for_the_old_pods_and_inherits_nothing():
    world = job(worker=2).running().pod("worker", 1, failed(1)).reconcile()
    world.each(terminating())
    world.raw["metadata"] |= {"uid": "new", "generation": 1}
    world.raw["status"] = {}
    world.service = None
    outcome = world.act()
    assert outcome.creates == []
    assert outcome.reason("Running") == "NameTaken"
    assert outcome.status.restarts.total == 0
    world.pods.clear()
    assert world.act().creates == ["train-worker-0", "train-worker-1"]
    assert set(attempts(world).values()) == {"0"}


def test_a_foreign_service_keeps_the_job_waiting():
    world = job(worker=1).running()
    other = job("train", worker=1).running()
    other.service = world.service
    assert other.service
    other.service["metadata"]["ownerReferences"] = []
    other.pods.clear()
    assert other.act().creates == []
    assert other.decide().reason("Running") == "NameTaken"


def test_a_missing_service_is_made_again():
    world = job(worker=2).running()
    world.service = None
    assert world.act().plan.actions == (CreateService(),)


# Success


def test_chief_success_ends_the_job_whatever_workers_do():
    world = job(chief=1, worker=2).running().pod("worker", 1, failed(1)).pod("chief", 0, done())
    outcome = world.act()
    assert outcome.true() == {"Created", "Succeeded"}
    assert outcome.reason("Running") == "Finished"
    assert world.later(60).reconcile().status.completion_time == NOW


def test_a_running_chief_keeps_the_job_running_although_workers_succeeded():
    world = job(chief=1, worker=2).running().pod("worker", 0, done()).pod("worker", 1, done()).reconcile()
    assert world.status.phase == "Running"


def test_without_a_chief_worker_0_ends_the_job():
    world = job(worker=3).running().pod("worker", 0, done()).reconcile()
    assert world.status.phase == "Succeeded"


def test_all_workers_have_to_succeed_under_all_workers():
    world = job(worker=4).spec(successPolicy={"type": "AllWorkers"}).running()
    world.pod("worker", 0, done()).reconcile()
    assert world.status.phase == "Running"
    world.each(done()).reconcile()
    assert world.decide().reason("Succeeded") == "AllWorkersSucceeded"


def test_two_workers_succeeded_and_two_failed_without_restart_is_a_failure():
    world = job(worker={"replicas": 4, "restartPolicy": "Never"}).spec(successPolicy={"type": "AllWorkers"})
    world.running().pod("worker", 0, done()).pod("worker", 1, done())
    world.pod("worker", 2, failed(1)).pod("worker", 3, failed(1)).reconcile().later(1).reconcile()
    assert world.status.phase == "Failed"


def test_chief_failure_without_restart_fails_the_job_although_workers_succeeded():
    world = job(chief={"restartPolicy": "Never"}, worker=2).running()
    world.pod("worker", 0, done()).pod("worker", 1, done()).pod("chief", 0, failed(1)).reconcile().later(1).reconcile()
    assert world.status.phase == "Failed"


def test_a_sidecar_that_runs_on_does_not_keep_the_job_alive():
    world = job(worker=1).running()
    world.pod("worker", 0, {**done(), "phase": "Running"})
    side_car = {"name": "logs", "state": {"running": {}}}
    world.pods["train-worker-0"]["status"]["containerStatuses"].append(side_car)
    assert world.reconcile().status.phase == "Succeeded"


def test_final_progress_comes_from_the_termination_message():
    message = '{"class":"done","step":90,"checkpointStep":90,"metrics":{"accuracy":0.97,"x":NaN}}'
    world = job(worker=1).running().pod("worker", 0, done(message=message)).reconcile()
    progress = world.status.progress
    assert progress
    assert (progress.step, progress.last_checkpoint_step, progress.metrics) == (90, 90, {"accuracy": 0.97})


def test_a_job_that_fails_keeps_the_last_values_too():
    world = job(worker=1).spec(failurePolicy={"maxRestarts": 0}).running()
    world.pod("worker", 0, told("user-error", 1, step=40, checkpointStep=30)).reconcile().later(1).reconcile()
    progress = world.status.progress
    assert progress
    assert (world.status.phase, progress.step, progress.last_checkpoint_step) == ("Failed", 40, 30)


@pytest.mark.parametrize(
    "message",
    [
        f'{{"class":"user-error","step":{2**70},"checkpointStep":{2**70},"message":"m"}}',
        '{"class":"user-error","message":"half a character: \\ud800","metrics":{"\\ud800":1}}',
        f'{{"class":"user-error","metrics":{{"huge":{10**400}}}}}',
        f'{{"class":{"[" * 4000}',
    ],
    ids=["a step beyond 64 bits", "half a character", "a number beyond all floats", "brackets without end"],
)
@pytest.mark.parametrize("code", [0, 1])
def test_nothing_that_a_pod_says_at_its_end_breaks_its_job(message: str, code: int):
    world = job(worker=1).running()
    world.pod("worker", 0, done(message=message) if code == 0 else failed(code, message=message)).reconcile()
    assert world.status.phase == ("Succeeded" if code == 0 else "Restarting")
    assert serializer.loads(serializer.dumps(world.status.wire()))


# Clean-up


@pytest.mark.parametrize(
    ("policy", "left", "service"),
    [
        ("Running", {"train-chief-0", "train-worker-0"}, True),
        ("All", set(), False),
        ("None", {"train-chief-0", "train-worker-0", "train-worker-1", "train-worker-2", "train-ps-0"}, True),
    ],
)
def test_clean_pod_policy_on_success(policy: str, left: set[str], service: bool):  # noqa: FBT001
    world = job(chief=1, worker=3, ps=1).spec(cleanPodPolicy=policy, strategy={"type": "None"}).running()
    world.pod("worker", 2, pending()).pod("worker", 0, done()).reconcile()
    world.pod("chief", 0, done()).reconcile().reap().reconcile()
    assert set(world.pods) == left
    assert (world.service is not None) == service


def test_clean_pod_policy_holds_when_the_job_fails_by_its_limit():
    world = job(worker=3).spec(cleanPodPolicy="Running", failurePolicy={"maxRestarts": 0}).running()
    world.pod("worker", 1, failed(1)).reconcile().later(1).reconcile().reap().reconcile()
    assert world.decide().reason("Failed") == "MaxRestartsExceeded"
    assert set(world.pods) == {"train-worker-1"}


def test_the_evaluator_may_finish_its_last_evaluation():
    world = job(worker=2, evaluator=1).running()
    world.spec(successPolicy={"waitForEvaluatorSeconds": 60}, cleanPodPolicy="All", ttlSecondsAfterFinished=5)
    world.raw["status"]["specHash"] = ""
    world.pod("worker", 0, done()).reconcile().reap().reconcile()
    assert set(world.pods) == {"train-evaluator-0"}
    assert world.service is not None
    assert world.decide().plan.requeue_at == NOW + timedelta(seconds=60)
    assert not world.later(30).reconcile().job_deleted
    outcome = world.later(30).act()
    assert outcome.deletes == ["train-evaluator-0"]
    assert outcome.has(DeleteService)


def test_ttl_deletes_the_job_after_its_time():
    world = job(worker=1).spec(ttlSecondsAfterFinished=30).running().pod("worker", 0, done()).reconcile()
    assert world.decide().plan.requeue_at == NOW + timedelta(seconds=30)
    assert world.later(30).decide().has(DeleteJob)
    assert not world.spec(suspend=True).decide().has(DeleteJob)


def test_ttl_of_zero_deletes_at_once():
    world = job(worker=1).spec(ttlSecondsAfterFinished=0).running()
    assert world.pod("worker", 0, done()).act().has(DeleteJob)


# Deadlines


def test_the_deadline_fires_without_any_other_event():
    world = job(worker=1).spec(activeDeadlineSeconds=30).running()
    assert world.decide().plan.requeue_at == NOW + timedelta(seconds=30)
    world.later(30).act()
    assert world.decide().reason("Failed") == "DeadlineExceeded"


def test_the_deadline_does_not_count_suspended_time():
    world = job(worker=1).spec(activeDeadlineSeconds=30).running().later(20).spec(suspend=True).reconcile().reap()
    assert world.later(100).decide().plan.requeue_at is None
    world.spec(suspend=False).reconcile()
    assert world.status.start_time == NOW + timedelta(seconds=120)
    assert world.decide().plan.requeue_at == NOW + timedelta(seconds=150)


def test_the_start_deadline_holds_until_the_first_running_only():
    world = job(worker=2).spec(startDeadlineSeconds=10).reconcile()
    world.later(10).act()
    assert world.decide().reason("Failed") == "StartDeadlineExceeded"
    world = job(worker=2).spec(startDeadlineSeconds=10).running().each(not_ready())
    world.later(60).reconcile()
    assert not world.status.finished


def test_a_job_whose_pods_became_ready_while_no_operator_looked_has_not_missed_its_start():
    world = job(worker=2).spec(startDeadlineSeconds=10).reconcile().each(ready()).later(60).reconcile()
    assert world.status.phase == "Running"
    assert world.seen("Failed") == []


def test_the_start_deadline_holds_also_where_the_api_servers_clock_is_ahead():
    world = job(worker=2).spec(startDeadlineSeconds=10)
    world.act()
    for pod in world.pods.values():
        pod["metadata"]["creationTimestamp"] = "2026-01-01T12:05:00Z"
    assert world.reconcile().decide().plan.requeue_at == NOW + timedelta(seconds=10)


def test_the_start_deadline_of_a_resumed_job_begins_with_its_first_new_pod():
    world = job(worker=1).spec(startDeadlineSeconds=10).reconcile().each(not_ready()).reconcile()
    world.spec(suspend=True).reconcile().later(5).spec(suspend=False).reconcile()
    world.later(60).reconcile()
    assert not world.status.finished
    created = world.reap().reconcile().now
    assert world.decide().plan.requeue_at == created + timedelta(seconds=10)


# Problems of pods


def test_image_pull_errors_show_on_the_job_and_do_not_flap():
    world = job(worker=1).reconcile().pod("worker", 0, pending("ErrImagePull", "no such image")).reconcile()
    assert world.decide().reason("Running") == "ImagePullFailed"
    assert "no such image" in world.status.message
    writes = world.writes
    world.pod("worker", 0, pending("ImagePullBackOff", "Back-off pulling image")).reconcile()
    assert world.writes == writes


ENDED_BESIDE = (
    "Container log of train-worker-1 has ended (exit code {}), and a pod is ready only while all its containers run; "
    "make it an init container, or keep it running."
)


def test_a_container_that_ends_beside_the_main_one_is_named_before_the_job_runs_and_after():
    world = job(worker=2).reconcile().each(ready()).pod("worker", 1, ended_beside("log", 0)).reconcile()
    assert world.status.message == f"Waits for train-worker-1 to be ready. {ENDED_BESIDE.format(0)}"
    world.each(ready()).reconcile().pod("worker", 1, ended_beside("log", 3)).reconcile()
    assert world.status.message == f"Waits for train-worker-1 to be ready again. {ENDED_BESIDE.format(3)}"
    assert world.decide().plan.actions == ()


def test_a_container_that_the_kubelet_restarts_beside_the_main_one_is_not_named():
    world = job(chief=1, worker=1, ps=worker("Always", 1)).running()
    world.pod("ps", 0, ended_beside("log", 3)).reconcile()
    assert world.status.message == "Waits for train-ps-0 to be ready again."


def test_unschedulable_pods_show_on_the_job():
    world = job(worker=1).reconcile().pod("worker", 0, unschedulable("0/3 nodes are available")).reconcile()
    assert world.decide().reason("Running") == "Unschedulable"
    assert world.status.phase == "Pending"


@pytest.mark.parametrize("kind", [k for k in BlockedReason if k is not BlockedReason.INVALID])
def test_refused_writes_show_on_the_job_and_are_tried_again_without_a_hot_loop(kind: BlockedReason):
    world = job(worker=2)
    world.act()
    world.vanish("worker", 1).refuse(kind, "train-worker-1", "the server's words")
    outcome = world.act()
    assert outcome.creates == []
    assert outcome.reason("Running") == kind.value
    assert "the server's words" in outcome.status.message
    check = world.decide().plan.requeue_at
    assert check is not None
    world.now = check
    assert world.act().creates == ["train-worker-1"]


def test_a_pod_that_the_server_refuses_makes_the_job_invalid_until_the_spec_changes():
    world = job(worker=2)
    world.act()
    world.vanish("worker", 1).refuse(BlockedReason.INVALID, "train-worker-1", "spec.x: wrong")
    outcome = world.act()
    assert "Invalid" in outcome.true()
    assert outcome.events == ["Invalid"]
    assert "spec.x: wrong" in outcome.status.message
    assert world.decide().plan.requeue_at == world.now + timedelta(seconds=60)
    assert world.spec(activeDeadlineSeconds=99).act().creates == ["train-worker-1"]
    world.blocked_writes.clear()
    assert "Invalid" not in world.act().true()


def test_a_pattern_that_re2_refuses_makes_the_job_invalid():
    rule = {"messagePattern": "(?=a)", "action": "Ignore"}
    outcome = job(worker=1).spec(failurePolicy={"rules": [rule]}).act()
    assert outcome.creates == []
    assert outcome.reason("Invalid") == "BadPattern"


def test_a_spec_that_drifts_while_the_job_runs_is_reported_and_not_acted_upon():
    world = job(worker=2).running().spec(clusterDomain="elsewhere")
    world.vanish("worker", 1)
    outcome = world.act()
    assert outcome.creates == []
    assert outcome.reason("Invalid") == "SpecChanged"
    world.spec(clusterDomain="").reconcile()
    assert set(world.pods) == {"train-worker-0", "train-worker-1"}
    assert not world.holds("Invalid")


CHANGEABLE = {
    "ttlSecondsAfterFinished": 60,
    "activeDeadlineSeconds": 60,
    "cleanPodPolicy": "All",
    "failurePolicy": {"maxRestarts": 9},
}


@pytest.mark.parametrize("field", CHANGEABLE)
def test_a_field_that_may_change_while_a_job_runs_is_no_drift_where_it_was_unset_or_becomes_unset(field: str):
    world = job(worker=2).running().spec(**{field: CHANGEABLE[field]})
    assert "Invalid" not in world.act().true()
    set_from_the_start = job(worker=2).spec(**{field: CHANGEABLE[field]}).running()
    del set_from_the_start.raw["spec"][field]
    assert "Invalid" not in set_from_the_start.spec().act().true()


def test_progress_is_written_at_most_every_thirty_seconds():
    from dataclasses import replace

    from dtj_operator.reconcile.decide import decide
    from dtj_operator.reconcile.state.trainer_messages import read_progress

    world = job(worker=1).running()

    def passing(step: int) -> Any:
        latest = read_progress({"step": step, "loss": float("nan"), "metrics": {"a": 1}}, world.now)
        plan = decide(replace(world.snapshot(), progress=latest), world.now)
        world.apply(plan)
        return plan

    assert passing(1).write is StatusWrite.DELAYED
    world.later(29)
    assert passing(2).status.progress.step == 1
    world.later(1)
    assert passing(3).status.progress.step == 3


def test_told_reasons_reach_people():
    world = job(worker=1).running().pod("worker", 0, told("user-error", 1, message="no column 'x'")).reconcile()
    assert "no column 'x'" in world.status.message
    assert "failed with exit code 1 (UserError): no column 'x'" in world.seen("PodFailed")[0]


def test_an_evicted_pod_names_its_node():
    world = job(worker=1).running()
    node = world.node_of("worker", 0)
    world.pod("worker", 0, evicted()).reconcile()
    assert world.status.last_incident
    assert world.status.last_incident.node == node
