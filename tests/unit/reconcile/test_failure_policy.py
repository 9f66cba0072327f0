"""Incidents: root cause, charge, budget, backoff, scope."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from dtj_operator.api.enums import Cause
from dtj_operator.api.status import LastIncident, Restarts
from dtj_operator.reconcile.decide import decide
from dtj_operator.reconcile.state.blocked_writes import BlockedReason
from dtj_operator.reconcile.state.plan import DeletePod
from dtj_operator.reconcile.state.trainer_messages import read_progress
from tests.support.job_builder import (
    Change,
    JobBuilder,
    done,
    evicted,
    failed,
    job,
    not_ready,
    ready,
    recovered,
    restarted,
    terminating,
    told,
    worker,
)

if TYPE_CHECKING:
    from types import FrameType


def test_a_preempted_worker_is_replaced_and_not_charged():
    world = job(worker=3).running().pod("worker", 1, failed(143, disruption="PreemptionByScheduler"))
    outcome = world.decide()
    assert outcome.creates == ["train-worker-1"]
    assert outcome.status.restarts == Restarts(total=1, charged=0, by_cause={Cause.PREEMPTED: 1})
    assert outcome.events == ["PodFailed", "Restarting"]


def test_a_failure_waits_for_the_backoff_and_is_charged():
    world = job(worker=3).running().pod("worker", 1, failed(1, message="boom")).reconcile()
    assert world.status.restarts.total == 0
    assert world.holds("Restarting")
    assert not world.holds("Running")
    assert world.decide().plan.requeue_at == world.now.replace(second=1)
    outcome = world.later(1).act()
    assert outcome.creates == outcome.deletes == ["train-worker-1"]
    assert outcome.status.attempt == 1
    assert outcome.status.restarts == Restarts(total=1, charged=1, by_cause={Cause.USER_ERROR: 1})
    assert outcome.restarts_of("worker") == 1
    world.each(ready()).later(4).reconcile()
    incident = world.status.last_incident
    assert incident is not None
    assert (incident.cause, incident.role, incident.index, incident.exit_code) == ("UserError", "worker", 1, 1)
    assert incident.recovery_seconds == 5
    assert world.seen("Recovered") == ["Recovered from UserError after 5.0 s."]
    assert world.holds("Running")


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (failed(1, disruption="EvictionByEvictionAPI"), "Evicted"),
        (failed(143, disruption="TerminationByKubelet"), "Evicted"),
        (failed(137, disruption="DeletionByTaintManager"), "NodeLost"),
        (failed(137, disruption="DeletionByPodGC"), "NodeLost"),
        (failed(137, pod_reason="NodeLost"), "NodeLost"),
        (failed(1, disruption="PreemptionByScheduler"), "Preempted"),
        (failed(143, pod_reason="Preempting"), "Preempted"),
        (failed(42, disruption="SomethingNew"), "Preempted"),
        (evicted("Evicted"), "Evicted"),
        (evicted("Shutdown"), "Evicted"),
        (evicted("Terminated"), "Evicted"),
        (evicted("UnexpectedAdmissionError"), "Rejected"),
        (evicted("NodeAffinity"), "Rejected"),
        (evicted("NodeShutdown"), "Rejected"),
        (evicted("TaintToleration"), "Rejected"),
        (evicted("OutOfcpu"), "Rejected"),
        (evicted("OutOfnvidia.com/gpu"), "Rejected"),
        (terminating(), "Deleted"),
    ],
)
def test_evidence_of_a_disruption_is_free_and_acted_upon_at_once(change: Change, cause: str):
    world = job(worker=2).running().pod("worker", 1, change)
    status = world.act().status
    assert status.restarts == Restarts(total=1, charged=0, by_cause={Cause(cause): 1})
    assert status.attempt == 1


@pytest.mark.parametrize(
    ("change", "cause", "charged"),
    [
        (failed(137, reason="OOMKilled"), "OutOfMemory", 1),
        (told("out-of-memory", 137), "OutOfMemory", 1),
        (told("user-error", 75), "UserError", 1),
        (failed(42), "Preempted", 0),
        (failed(143), "Preempted", 0),
        (told("preempted", 143), "Preempted", 0),
        (told("stalled", 75), "Stalled", 0),
        (told("preflight-failed", 75), "PreflightFailed", 0),
        (told("preflight-failed", 1), "PreflightFailed", 1),
        (told("fenced", 75), "PeerLost", 0),
        (told("killed", 137), "Killed", 0),
        (failed(137), "Killed", 0),
        (failed(130), "Killed", 1),
        (failed(159), "Killed", 1),
        (failed(75), "PeerLost", 0),
        (failed(134), "UserError", 1),
        (failed(139), "UserError", 1),
        (failed(127), "UserError", 1),
        (failed(128), "UserError", 1),
        (failed(3), "UserError", 1),
        (failed(255), "Unknown", 1),
    ],
)
def test_causes_and_charges_without_evidence(change: Change, cause: str, charged: int):
    world = job(worker=2).running().pod("worker", 1, change).reconcile().later(1).reconcile()
    assert world.status.restarts == Restarts(total=1, charged=charged, by_cause={Cause(cause): 1})


def test_near_simultaneous_failures_are_one_incident_charged_once():
    world = job(worker=3).running().pod("worker", 0, failed(75)).reconcile().later(0.3)
    world.pod("worker", 2, told("user-error", 1, message="bad data")).reconcile().later(1).reconcile()
    assert world.status.restarts == Restarts(total=1, charged=1, by_cause={Cause.USER_ERROR: 1})
    assert world.status.last_incident
    assert world.status.last_incident.index == 2
    assert world.status.last_incident.message == "bad data"
    assert world.restarts_of("worker") == 2
    assert world.status.attempt == 1


def test_a_pass_over_many_failed_pods_takes_work_in_proportion_to_their_number():
    assert _calls(failed_pods=900) < 4 * _calls(failed_pods=300)


def _calls(*, failed_pods: int) -> int:
    """Calls of functions that the pass takes in which so many failures are known to the open incident."""
    world = job(worker=failed_pods).running().each(failed(75)).reconcile()
    snapshot, calls = world.snapshot(), 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        decide(snapshot, world.now)
    finally:
        sys.setprofile(before)
    return calls


def test_whatever_peers_of_a_free_root_cause_exit_with_is_free():
    world = job(worker=3).running().pod("worker", 1, failed(143, disruption="PreemptionByScheduler")).reconcile()
    outcome = world.pod("worker", 0, failed(1)).pod("worker", 2, failed(75)).act()
    assert outcome.creates == ["train-worker-0", "train-worker-2"]
    assert outcome.status.restarts == Restarts(total=1, charged=0, by_cause={Cause.PREEMPTED: 1})
    assert outcome.status.attempt == 1
    assert outcome.restarts_of("worker") == 3


def test_a_pod_made_by_the_action_that_fails_opens_the_next_incident():
    world = job(worker=2).running().pod("worker", 1, failed(143, disruption="PreemptionByScheduler")).reconcile()
    world.pod("worker", 1, failed(1)).reconcile().later(1).reconcile()
    assert world.status.restarts.total == 2
    assert world.status.restarts.charged == 1
    assert world.status.attempt == 2


def test_a_bare_failure_yields_to_evidence_that_comes_during_the_backoff():
    world = job(worker=2).running().pod("worker", 0, failed(1)).reconcile().later(0.5)
    outcome = world.pod("worker", 1, failed(143, disruption="EvictionByEvictionAPI")).act()
    assert outcome.creates == ["train-worker-0", "train-worker-1"]
    assert outcome.status.restarts == Restarts(total=1, charged=0, by_cause={Cause.EVICTED: 1})


def test_the_restart_budget_bounds_recreations_across_pod_objects_and_operator_restarts():
    world = job(worker=2).spec(failurePolicy={"maxRestarts": 2}).running()
    for expected in (1, 2):
        world.pod("worker", 1, failed(1, message="boom")).reconcile().later(10)
        recovered(world)
        assert world.status.restarts.charged == expected
    world.pod("worker", 1, failed(1, message="boom")).reconcile().later(10).reconcile()
    assert world.status.phase == "Failed"
    failure = world.decide()
    assert failure.reason("Failed") == "MaxRestartsExceeded"
    assert "train-worker-1 ended with exit code 1" in world.status.message
    assert "boom" in world.status.message
    assert world.status.restarts.total == 2


def test_a_clock_that_was_set_back_keeps_no_restart_waiting():
    world = job(worker=2).running().pod("worker", 1, failed(1)).reconcile()
    world.later(-3600).reconcile().later(1).reconcile()
    assert world.status.restarts.total == 1
    assert world.label("worker", 1, "attempt") == "1"


def test_delays_between_recreations_grow_and_reset_after_stable_running():
    world = job(worker=2).spec(failurePolicy={"maxRestarts": 10, "backoff": {"maxSeconds": 5}}).running()

    def delay() -> float:
        world.pod("worker", 1, failed(1)).reconcile()
        due = world.status.backoff.next_attempt_time
        assert due is not None
        waited = (due - world.now).total_seconds()
        world.later(waited).reconcile().each(ready()).reconcile()
        return waited

    assert [delay() for _ in range(4)] == [1, 2, 4, 5]
    assert world.decide().plan.requeue_at is not None
    world.later(600).reconcile()
    assert world.status.backoff.consecutive == 0
    assert delay() == 1


def test_an_initial_delay_of_zero_means_no_wait():
    world = job(worker=2).spec(failurePolicy={"backoff": {"initialSeconds": 0}}).running()
    assert world.pod("worker", 1, failed(1)).act().creates == ["train-worker-1"]


def test_free_restarts_wait_only_from_the_second_in_a_row():
    world = job(worker=2).running().pod("worker", 1, evicted()).reconcile().each(ready()).reconcile()
    assert world.pod("worker", 1, evicted()).act().creates == []
    assert world.later(1).act().creates == ["train-worker-1"]
    assert world.status.backoff.consecutive == 0


def test_unproven_free_restarts_are_charged_from_the_eleventh_in_a_row():
    world = job(worker=2).running()
    for _ in range(10):
        recovered(world.pod("worker", 1, failed(137)).reconcile().later(1))
    assert world.status.restarts == Restarts(total=10, charged=0, by_cause={Cause.KILLED: 10})
    recovered(world.pod("worker", 1, failed(137)).reconcile().later(1))
    assert world.status.restarts.charged == 1


def test_a_higher_reported_step_begins_a_new_row():
    world = job(worker=2).running()
    for step in range(1, 15):
        recovered(world.pod("worker", 1, told("preempted", 143, step=step)).reconcile().later(1))
    assert world.status.restarts.charged == 0
    assert world.status.restarts.total == 14


def test_never_fails_the_job_whatever_the_code_after_waiting_for_evidence():
    world = job(worker=worker("Never")).running().pod("worker", 1, failed(137)).reconcile()
    assert not world.status.finished
    world.later(1).reconcile()
    assert world.decide().reason("Failed") == "RestartPolicyNever"


def test_never_names_the_pod_that_may_not_be_restarted_and_the_root_cause():
    world = job(chief=1, worker=worker("Never", 3)).running()
    world.pod("chief", 0, failed(1)).pod("worker", 1, failed(75)).pod("worker", 2, failed(75))
    world.reconcile().later(1).reconcile()
    assert world.decide().reason("Failed") == "RestartPolicyNever"
    told = "train-worker-1 failed under restartPolicy Never: train-chief-0 ended with exit code 1 (UserError)"
    assert world.status.message.startswith(told)


def test_never_replaces_a_disrupted_pod_and_the_peers_that_fell_with_it():
    world = job(worker=worker("Never", 3)).running()
    world.pod("worker", 1, failed(143, disruption="EvictionByEvictionAPI")).reconcile()
    world.pod("worker", 0, failed(1)).reconcile()
    assert world.status.phase == "Restarting"
    assert world.restarts_of("worker") == 2
    assert world.status.restarts.total == 1


def test_retryable_code_restarts_under_exit_code():
    world = job(worker=worker("ExitCode")).running().pod("worker", 1, failed(143)).reconcile()
    outcome = world.later(1).act()
    assert outcome.creates == ["train-worker-1"]
    assert outcome.holds("Restarting")


def test_permanent_code_under_exit_code_fails_the_job_naming_replica_and_code():
    world = job(worker=worker("ExitCode")).running().pod("worker", 1, failed(1)).reconcile().later(1).reconcile()
    assert world.decide().reason("Failed") == "PermanentFailure"
    assert "train-worker-1 ended with exit code 1" in world.status.message


def test_under_exit_code_a_disruption_is_the_root_cause_unless_the_program_itself_is_to_blame():
    disrupted = job(worker=worker("ExitCode")).running().pod("worker", 1, failed(1, disruption="EvictionByEvictionAPI"))
    assert disrupted.act().status.restarts.charged == 0
    assert not disrupted.holds("Failed")
    to_blame = told("user-error", 1) | {"conditions": failed(1, disruption="EvictionByEvictionAPI")["conditions"]}
    world = job(worker=worker("ExitCode")).running().pod("worker", 1, to_blame).reconcile().later(1).reconcile()
    assert world.decide().reason("Failed") == "PermanentFailure"
    assert "UserError" in world.status.message


def test_peers_are_not_judged_beside_a_retryable_root_cause():
    world = job(worker=worker("ExitCode")).running().pod("worker", 0, failed(1)).pod("worker", 1, failed(143))
    world.reconcile().later(1).reconcile()
    assert world.status.phase == "Restarting"


def test_on_failure_restarts_exit_1_and_not_exit_0():
    world = job(worker=3).running().pod("worker", 1, done()).pod("worker", 2, failed(1)).reconcile()
    outcome = world.later(1).act()
    assert outcome.creates == ["train-worker-2"]
    assert outcome.status.completed == {"worker": (1,)}


def test_exit_code_0_is_success_whatever_the_reason_field_says():
    world = job(worker=2).running().pod("worker", 1, done(reason="OOMKilled")).reconcile()
    assert world.status.completed == {"worker": (1,)}


def test_always_counts_what_the_kubelet_restarts_and_acts_upon_nothing():
    world = job(chief=1, worker=1, ps=worker("Always", 1)).running()
    outcome = world.pod("ps", 0, restarted(1, 1)).act()
    assert outcome.plan.actions == ()
    assert outcome.status.attempt == 0
    assert outcome.status.restarts == Restarts(total=1, charged=1, by_cause={Cause.USER_ERROR: 1})
    assert outcome.restarts_of("ps") == 1
    assert world.act().status.restarts.total == 1
    world.pod("ps", 0, restarted(2, 0, reason="Completed")).reconcile()
    assert world.status.restarts.total == 2
    assert world.status.restarts.charged == 1


def last_of(world: JobBuilder) -> LastIncident:
    assert world.status.last_incident is not None
    return world.status.last_incident


def test_an_in_place_restart_beyond_the_budget_fails_the_job():
    world = job(chief=1, worker=1, ps=worker("Always", 1)).spec(failurePolicy={"maxRestarts": 1}).running()
    world.pod("ps", 0, restarted(1, 1)).reconcile().pod("ps", 0, restarted(2, 1)).reconcile()
    assert world.decide().reason("Failed") == "MaxRestartsExceeded"
    assert len(world.seen("PodFailed")) == 2
    assert (last_of(world).role, last_of(world).exit_code, last_of(world).action) == ("ps", 1, "FailJob")
    assert world.restarts_of("ps") == world.status.restarts.total == world.status.restarts.charged == 2


def test_the_incident_that_fails_the_job_is_its_last():
    world = job(worker=2).spec(failurePolicy={"maxRestarts": 1}).running().pod("worker", 0, failed(1)).reconcile()
    world.later(1).reconcile().each(ready()).reconcile().later(60).pod("worker", 1, failed(3)).reconcile().later(
        2
    ).reconcile()
    assert world.status.phase == "Failed"
    assert (last_of(world).index, last_of(world).exit_code, last_of(world).action) == (1, 3, "FailJob")
    assert last_of(world).recovered_at is None
    assert world.status.restarts.total == 1


def test_an_in_place_restart_during_an_incident_belongs_to_it():
    world = job(chief=1, worker=1, ps=worker("Always", 1)).running()
    world.pod("worker", 0, failed(1)).reconcile().pod("ps", 0, restarted(1, 1)).reconcile()
    assert world.status.restarts.total == 0
    assert world.restarts_of("ps") == 1


def test_a_pod_made_by_the_action_that_is_restarted_in_place_beyond_the_budget_fails_the_job():
    world = job(chief=1, worker=1, ps=worker("Always", 1)).spec(failurePolicy={"maxRestarts": 1}).running()
    world.pod("ps", 0, evicted()).reconcile()
    world.pod("ps", 0, restarted(1, 1), not_ready()).reconcile()
    assert world.status.restarts == Restarts(total=2, charged=1, by_cause={Cause.EVICTED: 1, Cause.USER_ERROR: 1})
    world.pod("ps", 0, restarted(2, 1), not_ready()).reconcile()
    assert world.decide().reason("Failed") == "MaxRestartsExceeded"


def test_a_restart_in_place_of_a_pod_made_by_the_action_is_what_the_job_has_recovered_from():
    world = job(chief=1, worker=1, ps=worker("Always", 1)).running()
    world.pod("ps", 0, evicted()).reconcile().later(60)
    world.pod("ps", 0, restarted(1, 1), not_ready()).reconcile().later(7).each(ready()).reconcile()
    assert world.seen("Recovered") == ["Recovered from UserError after 7.0 s."]
    assert last_of(world).recovery_seconds == 7
    assert not world.holds("Restarting")


def test_a_failed_ps_without_restart_fails_the_job_even_while_the_chief_runs():
    world = job(chief=1, worker=1, ps=worker("Never", 1)).running()
    world.pod("ps", 0, failed(1)).reconcile().later(1).reconcile()
    assert world.status.phase == "Failed"


def test_a_serving_role_that_ends_early_is_replaced_for_free():
    world = job(chief=1, worker=1, ps=1).running().pod("ps", 0, done()).reconcile().later(1).reconcile()
    assert world.status.restarts == Restarts(total=1, charged=0, by_cause={Cause.UNKNOWN: 1})
    world = job(chief=1, worker=1, ps=1).running().pod("worker", 0, done()).reconcile().later(1).reconcile()
    assert world.status.completed == {}
    assert world.status.attempt == 1


@pytest.mark.parametrize("policy", ["OnFailure", "Never", "ExitCode"])
def test_a_ps_that_succeeded_without_a_word_about_its_containers_has_ended_with_0(policy: str):
    world = job(chief=1, worker=1, ps=worker(policy, 1)).running()
    world.pod("ps", 0, {"phase": "Succeeded", "conditions": []}).reconcile().later(1)
    outcome = world.act()
    assert outcome.creates == ["train-ps-0"]
    assert outcome.status.restarts == Restarts(total=1, charged=0, by_cause={Cause.UNKNOWN: 1})


def test_deleting_a_running_worker_does_not_fail_the_job_and_keeps_its_identity():
    world = job(worker=2).running().pod("worker", 1, terminating()).reconcile()
    assert world.decide().creates == []
    assert world.reap().act().creates == ["train-worker-1"]
    assert world.status.restarts == Restarts(total=1, charged=0, by_cause={Cause.DELETED: 1})


def test_a_terminating_pod_that_has_ended_makes_way_for_its_successor_at_once():
    world = job(worker=2).running().pod("worker", 1, terminating()).reconcile()
    outcome = world.pod("worker", 1, told("preempted", 42)).act()
    (deletion,) = [action for action in outcome.plan.actions if isinstance(action, DeletePod)]
    assert deletion.force
    assert outcome.creates == ["train-worker-1"]


def test_a_terminating_pod_that_a_finalizer_holds_is_waited_for():
    world = job(worker=2).running().pod("worker", 1, terminating()).reconcile()
    world.pods["train-worker-1"]["metadata"]["finalizers"] = ["example.org/logs"]
    outcome = world.pod("worker", 1, told("preempted", 42)).act()
    assert outcome.plan.actions == ()
    assert world.reap().act().creates == ["train-worker-1"]


def test_a_pod_on_a_lost_node_that_a_finalizer_holds_is_deleted_once_and_waited_for():
    world = job(worker=2).running()
    pod = world.pods["train-worker-1"]["metadata"]
    pod["finalizers"] = ["example.org/logs"]
    outcome = world.lose(world.node_of("worker", 1)).act()
    (deletion,) = outcome.plan.actions
    assert isinstance(deletion, DeletePod)
    assert deletion.force
    assert world.act().plan.actions == ()
    del pod["finalizers"]
    assert world.act().creates == ["train-worker-1"]


def test_a_pod_that_was_seen_and_vanished_counts_as_deleted():
    world = job(worker=2).running().vanish("worker", 1)
    assert world.act().creates == ["train-worker-1"]
    assert world.status.restarts.by_cause == {Cause.DELETED: 1}


def test_a_pod_that_was_never_seen_is_simply_created_again():
    world = job(worker=2)
    world.act()
    world.vanish("worker", 1)
    assert world.act().creates == ["train-worker-1"]
    assert world.status.restarts.total == 0


def test_a_completed_replica_is_never_run_again_when_its_pod_vanishes():
    world = job(worker=2).running().pod("worker", 1, done()).reconcile().vanish("worker", 1)
    assert world.decide().creates == []
    assert world.reconcile().status.restarts.total == 0


def test_pods_on_a_lost_node_are_deleted_by_force_and_replaced():
    world = job(worker=2).running()
    outcome = world.lose(world.node_of("worker", 1)).act()
    (deletion,) = [a for a in outcome.plan.actions if hasattr(a, "force")]
    assert deletion.force
    assert outcome.creates == ["train-worker-1"]
    assert outcome.status.restarts.by_cause == {Cause.NODE_LOST: 1}


def test_two_pods_with_the_same_replica_labels_are_resolved_to_one():
    import copy

    world = job(worker=1).running()
    twin = copy.deepcopy(world.pods["train-worker-0"])
    twin["metadata"] |= {"name": "twin", "uid": "twin"}
    world.pods["twin"] = twin
    assert world.act().deletes == ["twin"]


def test_an_attempt_beyond_all_counts_that_somebody_writes_on_a_pod_is_no_attempt():
    world = job(worker=1).running()
    world.pods["train-worker-0"]["metadata"]["labels"]["dtj.dev/attempt"] = "9" * 63
    assert world.act().status.attempt < 2**53


# Scope


def test_a_synchronous_strategy_replaces_the_lost_worker_and_lets_survivors_re_form():
    world = job(worker=3).running().pod("worker", 1, evicted())
    assert world.act().creates == ["train-worker-1"]
    assert world.each(not_ready()).act().plan.actions == ()
    world.each(ready()).reconcile()
    assert world.holds("Running")


def test_losing_a_worker_leaves_a_parameter_server_job_alone():
    world = job(chief=1, worker=2, ps=2).running().pod("worker", 1, evicted())
    assert world.act().creates == ["train-worker-1"]


def test_job_scope_recreates_every_unfinished_chief_worker_and_ps():
    world = job(chief=1, worker=2, ps=1, evaluator=1).spec(failurePolicy={"restartScope": "Job"}).running()
    world.pod("worker", 1, evicted()).act()
    assert sorted(world.decide().plan.actions, key=str) == []
    world.reap().reconcile()
    attempts = {name: pod["metadata"]["labels"]["dtj.dev/attempt"] for name, pod in world.pods.items()}
    assert attempts == {
        "train-chief-0": "1",
        "train-worker-0": "1",
        "train-worker-1": "1",
        "train-ps-0": "1",
        "train-evaluator-0": "0",
    }


def test_role_scope_recreates_the_role():
    world = job(chief=1, worker=2, ps=1).spec(failurePolicy={"restartScope": "Role"}).running()
    assert world.pod("worker", 1, evicted()).act().deletes == ["train-worker-0", "train-worker-1"]


def test_a_clock_that_was_set_back_keeps_no_refused_pod_waiting():
    world = job(worker=2)
    world.act()
    world.vanish("worker", 1).refuse(BlockedReason.QUOTA_EXCEEDED, "train-worker-1")
    assert world.later(-3600).act().creates == ["train-worker-1"]


def test_a_clock_that_was_set_back_keeps_no_progress_waiting():
    world = job(worker=1).running()

    for step in (1, 2):
        latest = read_progress({"step": step}, world.now)
        world.apply(decide(replace(world.snapshot(), progress=latest), world.now))
        world.later(-3600)
        assert world.status.progress is not None
        assert world.status.progress.step == step
