"""Suspended, and resumed."""

from __future__ import annotations

import pytest

from dtj_operator.api.enums import Role
from dtj_operator.reconcile.state.plan import DeleteService
from tests.support.job_builder import (
    attempts,
    done,
    failed,
    job,
    ready,
    restarted,
    worker,
)


def test_suspended_at_creation_creates_nothing():
    world = job(worker=2).spec(suspend=True)
    outcome = world.act()
    assert outcome.plan.actions == ()
    assert outcome.status.start_time is None
    assert outcome.true() == {"Created", "Suspended"}
    assert outcome.status.phase == "Suspended"


def test_suspending_removes_pods_and_service_and_resuming_makes_them_again():
    world = (
        job(worker=2).running().pod("worker", 1, failed(1)).reconcile().later(1).reconcile().each(ready()).reconcile()
    )
    charged = world.status.restarts.charged
    outcome = world.spec(suspend=True).act()
    assert outcome.deletes == ["train-worker-0", "train-worker-1"]
    assert outcome.has(DeleteService)
    assert outcome.status.start_time is None
    assert outcome.reason("Suspended") == "Suspended"
    assert world.status.restarts.charged == charged == 1
    world.later(5).spec(suspend=False).act()
    assert world.decide().creates == []
    world.reap().reconcile()
    assert world.decide().reason("Suspended") == "Resumed"
    assert set(attempts(world).values()) == {"2"}
    assert world.status.start_time == world.now
    assert world.status.restarts.total == 1
    world.each(ready()).reconcile()
    assert len(world.seen("Started")) == 2


def test_a_spec_edited_while_suspended_is_what_the_resume_starts():
    world = job(worker=2).running().spec(suspend=True).reconcile().reap()
    world.spec(suspend=False, clusterDomain="example.org").scale(3).reconcile()
    assert len(world.pods) == 3
    assert not world.holds("Invalid")


def test_success_seen_together_with_suspension_is_success():
    world = job(worker=1).running().pod("worker", 0, done()).spec(suspend=True).reconcile()
    assert world.status.phase == "Succeeded"


def test_a_pod_that_ends_with_0_because_a_suspension_stops_it_is_not_done():
    world = job(worker=2).running().spec(suspend=True).reconcile()
    world.pod("worker", 0, done()).pod("worker", 1, done()).reconcile()
    assert world.status.completed == {}
    world.spec(suspend=False).reconcile().reap().reconcile()
    assert world.status.phase != "Succeeded"
    assert attempts(world) == {"train-worker-0": "1", "train-worker-1": "1"}


def test_a_pod_that_had_ended_with_0_before_the_suspension_is_done():
    world = job(worker=2).running().pod("worker", 1, done()).spec(suspend=True).reconcile().reap()
    assert world.status.completed == {Role.WORKER: (1,)}
    world.spec(suspend=False).reconcile()
    assert attempts(world)["train-worker-1"] == "0"


def test_a_suspended_job_whose_new_size_is_done_has_succeeded_and_is_not_suspended():
    world = job(worker=2).spec(successPolicy={"type": "AllWorkers"}).running().pod("worker", 0, done()).reconcile()
    world.spec(suspend=True).reconcile().reap().reconcile()
    assert world.decide().true() == {"Created", "Suspended"}
    world.scale(1).reconcile()
    assert world.decide().true() == {"Created", "Succeeded"}


def test_suspend_holds_the_ttl_of_a_finished_job_and_nothing_else():
    world = job(worker=1).spec(ttlSecondsAfterFinished=5).running().pod("worker", 0, done()).reconcile()
    world.spec(suspend=True).reconcile().later(60).reconcile()
    assert (world.status.phase, world.job_deleted) == ("Succeeded", False)
    assert world.spec(suspend=False).reconcile().job_deleted


def test_a_resume_waits_for_pods_that_still_terminate():
    world = job(worker=2).running().spec(suspend=True).reconcile().later(0.5).spec(suspend=False).reconcile()
    assert set(attempts(world).values()) == {"0"}
    world.reap().reconcile()
    assert set(attempts(world).values()) == {"1"}
    assert world.status.restarts.total == 0


# A suspension forgives nothing


def test_a_failure_that_waits_for_its_restart_is_charged_when_the_job_is_suspended():
    world = job(worker=2).running()
    for charged in (1, 2):
        world.pod("worker", 1, failed(1)).reconcile()
        assert world.status.backoff.next_attempt_time is not None
        world.spec(suspend=True).reconcile().reap()
        assert (world.status.restarts.charged, world.status.restarts.total) == (charged, charged)
        assert world.status.last_incident
        assert (world.status.last_incident.cause, world.status.last_incident.action) == ("UserError", "Suspended")
        world.reconcile().spec(suspend=False).reconcile().each(ready()).reconcile()
        assert world.holds("Running")
    assert world.restarts_of("worker") == 2


def test_suspending_during_a_backoff_does_not_evade_max_restarts():
    world = job(worker=1).spec(failurePolicy={"maxRestarts": 0}).running().pod("worker", 0, failed(1)).reconcile()
    world.spec(suspend=True).reconcile()
    assert world.decide().reason("Failed") == "MaxRestartsExceeded"
    assert world.spec(suspend=False).reconcile().reap().reconcile().status.phase == "Failed"


@pytest.mark.parametrize("seen_before", [True, False])
def test_a_job_under_never_that_has_failed_does_not_run_again_after_a_suspension(seen_before: bool):  # noqa: FBT001
    world = job(worker=worker("Never", 2)).running().pod("worker", 1, failed(1))
    if seen_before:
        world.reconcile()
    world.spec(suspend=True).reconcile()
    assert world.decide().reason("Failed") == "RestartPolicyNever"


def test_a_disruption_is_free_of_charge_though_the_job_is_suspended_meanwhile():
    world = job(worker=2).running().pod("worker", 1, failed(143, disruption="PreemptionByScheduler"))
    world.spec(suspend=True).reconcile()
    assert (world.status.restarts.charged, world.status.restarts.by_cause) == (0, {"Preempted": 1})
    assert world.status.phase == "Suspended"


def test_restarts_by_the_kubelet_that_nobody_has_counted_are_counted_before_a_suspension():
    world = job(chief=1, worker=1, ps={"replicas": 1, "restartPolicy": "Always"}).running()
    world.pod("ps", 0, restarted(1, 1)).spec(suspend=True).reconcile()
    assert (world.status.restarts.charged, world.status.phase) == (1, "Suspended")
