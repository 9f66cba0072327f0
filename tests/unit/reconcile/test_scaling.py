"""Another number of replicas while the job runs."""

from __future__ import annotations

import pytest

from dtj_operator.api.enums import Cause
from tests.support.job_builder import (
    attempts,
    done,
    failed,
    job,
    ready,
    recovered,
)


def test_scaling_a_synchronous_job_is_a_planned_restart():
    world = job(worker=2).running().scale(3)
    outcome = world.act()
    assert outcome.deletes == ["train-worker-0", "train-worker-1"]
    assert outcome.creates == ["train-worker-2"]
    assert outcome.events == ["Scaled"]
    assert outcome.status.restarts.total == 1
    assert outcome.status.restarts.charged == 0
    assert outcome.status.restarts.by_cause == {Cause.SCALED: 1}
    assert outcome.restarts_of("worker") == 0
    world.reap().reconcile()
    assert set(attempts(world).values()) == {"1"}
    world.each(ready()).reconcile()
    assert world.holds("Running")


def test_a_new_size_waits_for_the_backoff_of_an_incident_and_is_taken_over_with_its_restart():
    world = job(worker=2).running().pod("worker", 1, failed(1)).reconcile().scale(3)
    waiting = world.act()
    assert (waiting.creates, waiting.deletes) == ([], [])
    assert waiting.status.attempt == 0
    outcome = world.later(1).act()
    assert outcome.deletes == ["train-worker-0", "train-worker-1"]
    world.reap().reconcile()
    assert set(attempts(world).values()) == {"2"}
    assert world.status.restarts.by_cause == {Cause.USER_ERROR: 1, Cause.SCALED: 1}


def test_scaling_down_removes_the_highest_indexes():
    world = job(worker=4, chief=1).spec(strategy={"type": "None"}).running().scale(2)
    assert world.act().deletes == ["train-worker-3", "train-worker-2"]
    assert world.status.attempt == 1
    assert world.status.restarts.total == 0


def test_scaling_parameter_server_workers_restarts_only_the_chief():
    world = job(chief=1, worker=2, ps=1).running().scale(3)
    outcome = world.act()
    assert outcome.deletes == ["train-chief-0"]
    assert outcome.creates == ["train-worker-2"]
    assert outcome.status.restarts.by_cause == {Cause.SCALED: 1}
    world.reap().reconcile()
    assert attempts(world) == {
        "train-chief-0": "1",
        "train-worker-0": "0",
        "train-worker-1": "0",
        "train-worker-2": "1",
        "train-ps-0": "0",
    }


def test_zero_replicas_have_no_pods_and_never_succeed():
    world = job(worker=0).reconcile()
    assert not world.pods
    assert world.decide().reason("Running") == "NoReplicas"
    assert not world.status.finished
    world.scale(1).reconcile()
    assert set(world.pods) == {"train-worker-0"}


def test_a_job_that_is_scaled_to_nothing_restarts_no_more_and_its_time_at_rest_is_no_recovery():
    world = job(worker=2).running().pod("worker", 1, failed(1)).reconcile().later(1).reconcile()
    assert world.holds("Restarting")
    world.scale(0).reconcile().reap().reconcile()
    assert not world.holds("Restarting")
    world.later(3600).scale(2).reconcile().each(ready()).reconcile()
    assert world.status.phase == "Running"
    assert world.seen("Recovered") == []


@pytest.mark.parametrize("strategy", ["None", "MultiWorkerMirrored"])
def test_a_failed_worker_that_is_scaled_away_before_its_restart_costs_nothing(strategy: str):
    policy = {"maxRestarts": 0, "backoff": {"initialSeconds": 60}}
    world = job(worker=3).spec(strategy={"type": strategy}, failurePolicy=policy).running()
    world.pod("worker", 2, failed(1)).reconcile()
    assert world.holds("Restarting")
    world.scale(2).reconcile().reap().reconcile().each(ready()).reconcile()
    assert world.pods.keys() == {"train-worker-0", "train-worker-1"}
    assert (world.holds("Running"), world.holds("Restarting")) == (True, False)
    assert world.status.restarts.charged == 0
    assert world.status.backoff.next_attempt_time is None


def test_a_failed_worker_that_is_scaled_away_with_others_left_that_failed_is_restarted_with_them():
    world = job(worker=3).spec(strategy={"type": "None"}).running()
    world.pod("worker", 1, failed(1)).pod("worker", 2, failed(1)).reconcile().scale(2)
    assert "train-worker-1" in recovered(world).pods
    assert world.status.restarts.charged == 1


def test_scaling_below_a_completed_index_forgets_nothing():
    world = job(worker=3).spec(strategy={"type": "None"}).running().pod("worker", 2, done()).reconcile()
    world.scale(1).reconcile().reap().scale(3).reconcile()
    assert "train-worker-1" in world.pods
    assert world.status.completed == {"worker": (2,)}
    assert attempts(world)["train-worker-1"] == "2"
    assert "train-worker-2" in world.pods


def test_the_strategy_is_chosen_anew_when_the_number_of_workers_changes():
    world = job(worker=1).running()
    assert world.status.strategy
    assert world.status.strategy.type == "OneDevice"
    world.scale(2).reconcile()
    assert world.status.strategy.type == "MultiWorkerMirrored"
    assert attempts(world.reap().reconcile())["train-worker-0"] == "1"
