"""Evaluators that fail, end or are taken away."""

from __future__ import annotations

from tests.support.job_builder import (
    done,
    evicted,
    failed,
    job,
    ready,
    recovered,
    terminating,
    worker,
)


def test_an_evaluator_failure_concerns_nobody_else():
    world = job(worker=1, evaluator=1).running().pod("evaluator", 0, failed(1)).reconcile()
    assert world.holds("Running")
    outcome = world.later(1).act()
    assert outcome.creates == ["train-evaluator-0"]
    assert outcome.status.restarts.total == 0
    assert outcome.status.attempt == 0
    assert outcome.status.last_incident is None
    assert outcome.restarts_of("evaluator") == 1
    world.reconcile().pod("evaluator", 0, failed(1)).reconcile()
    assert world.later(1).act().creates == []
    assert world.later(1).act().creates == ["train-evaluator-0"]


def test_an_evaluator_under_always_that_ends_with_0_when_it_is_deleted_is_started_again():
    world = job(worker=1, evaluator=worker("Always", 1)).running()
    world.pod("evaluator", 0, terminating(), done()).reconcile()
    assert world.status.completed == {}
    assert set(world.pods) == {"train-worker-0", "train-evaluator-0"}
    assert world.restarts_of("evaluator") == 1


def test_disruptions_of_an_evaluator_do_not_lengthen_its_backoff():
    world = job(worker=1, evaluator=1).running()
    for waits in (0, 1, 1):
        world.pod("evaluator", 0, evicted()).reconcile().later(waits).reconcile().pod(
            "evaluator", 0, ready()
        ).reconcile()
    world.pod("evaluator", 0, failed(1)).reconcile()
    assert world.later(1).act().creates == ["train-evaluator-0"]


def test_a_clock_that_was_set_back_keeps_no_evaluator_waiting():
    world = job(worker=1, evaluator=1).running().pod("evaluator", 0, failed(1)).reconcile()
    world.later(-3600).reconcile()
    assert world.later(2).act().creates == ["train-evaluator-0"]


def test_an_evaluator_that_waits_to_be_replaced_is_not_done_though_it_ends_with_0_meanwhile():
    world = recovered(job(worker=1, evaluator=1).running().pod("evaluator", 0, terminating()).reconcile())
    world.pod("evaluator", 0, terminating()).reconcile()
    world.pod("evaluator", 0, done()).reconcile()
    assert world.status.completed == {}
    world.reap().later(1).reconcile()
    assert world.pods.keys() == {"train-worker-0", "train-evaluator-0"}
