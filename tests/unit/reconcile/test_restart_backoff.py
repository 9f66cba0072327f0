"""Pods that end again and again while the job is not Running in between wait longer each time, whatever the cause."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.job_builder import Change, JobBuilder, attempts, evicted, failed, job, ready, terminating

REJECTED = evicted("OutOfcpu")


def waits(world: JobBuilder, change: Change, times: int) -> list[float]:
    """Return the seconds between the end of each pod and its replacement."""
    seconds = []
    for attempt in range(world.status.attempt + 1, world.status.attempt + 1 + times):
        began = world.now
        world.pod("worker", 0, change).reconcile()
        while world.status.attempt < attempt:
            due = world.decide().plan.requeue_at
            assert due is not None
            world.later((due - world.now).total_seconds()).reconcile()
        seconds.append((world.now - began).total_seconds())
        world.reap().reconcile()
    return seconds


def with_backoff(initial: int, longest: int = 300) -> JobBuilder:
    backoff = {"initialSeconds": initial, "maxSeconds": longest}
    return job(worker=1).spec(failurePolicy={"maxRestarts": 100, "backoff": backoff}).running()


@pytest.mark.parametrize("change", [REJECTED, {**terminating()}, failed(1, disruption="PreemptionByScheduler")])
def test_a_pod_that_ends_again_and_again_waits_longer_each_time_though_it_is_free_of_charge(change: Change):
    assert waits(with_backoff(1), change, 6) == [0, 1, 2, 4, 8, 16]


def test_the_wait_has_a_maximum_and_begins_with_the_initial_seconds():
    assert waits(with_backoff(10, 60), REJECTED, 7) == [0, 10, 20, 40, 60, 60, 60]


@pytest.mark.parametrize("change", [REJECTED, failed(1)])
def test_initial_seconds_of_0_are_no_tight_loop(change: Change):
    assert waits(with_backoff(0), change, 5) == [0, 1, 2, 4, 8]


def test_the_longer_of_both_waits_holds():
    world = with_backoff(2)
    assert waits(world, failed(1), 2) == [2, 4]
    assert waits(world, REJECTED, 1) == [4]


def test_running_resets_the_wait_at_once():
    world = with_backoff(1)
    assert waits(world, REJECTED, 3) == [0, 1, 2]
    world.each(ready()).reconcile()
    assert world.holds("Running")
    assert world.status.persisted_state.repeated_ends is None
    # The second free restart in a row waits initialSeconds, as ever.
    assert waits(world, REJECTED, 2) == [1, 1]


def test_only_the_pods_that_ended_are_counted():
    world = job(worker=3).running().pod("worker", 1, REJECTED).pod("worker", 2, REJECTED).reconcile()
    world.reap().reconcile().pod("worker", 1, REJECTED).reconcile().later(1).reconcile()
    ends = world.raw["status"]["ledger"]["repeatedEnds"]["worker"]
    assert ends == [{"ends": 1, "indexes": "2"}, {"ends": 2, "indexes": "1"}]


def test_a_scale_down_does_not_wait_out_a_backoff():
    world = job(worker=4).spec(failurePolicy={"backoff": {"initialSeconds": 300, "maxSeconds": 300}}).running()
    world.pod("worker", 0, failed(1)).reconcile()
    assert world.status.attempt == 0
    world.scale(2).reconcile().reap().reconcile()
    assert sorted(world.pods) == ["train-worker-0", "train-worker-1"]
    assert set(attempts(world).values()) == {"2"}
    assert world.status.restarts.charged == 1


def test_an_evaluator_that_is_rejected_again_and_again_waits_longer_each_time():
    world = job(worker=1, evaluator=1).spec(failurePolicy={"backoff": {"initialSeconds": 0}}).running()
    waited = []
    for number in range(1, 6):
        began = world.now
        world.pod("evaluator", 0, REJECTED).reconcile()
        while world.restarts_of("evaluator") < number:
            due = world.decide().plan.requeue_at
            assert due is not None
            world.later((due - world.now) / timedelta(seconds=1)).reconcile()
        waited.append((world.now - began).total_seconds())
        world.reap().reconcile()
    assert waited == [0, 1, 2, 4, 8]
