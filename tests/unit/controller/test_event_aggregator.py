"""Similar events are joined after the first ten."""

from __future__ import annotations

from dtj_operator.controller.event_aggregator import MAX_GROUPS, EventAggregator
from dtj_operator.reconcile.state.plan import Event
from tests.support.job_builder import failed, job


def event(group: str = "worker UserError", reason: str = "PodFailed") -> Event:
    return Event("Warning", reason, "Pod failed", group)


def single(aggregator: EventAggregator, *, times: int, now: float = 0.0, uid: str = "u", group: str = "g") -> int:
    """Return how many of so many events stay single."""
    return sum(aggregator.join(uid, event(group), now) is None for _ in range(times))


def test_the_first_ten_of_a_group_within_ten_minutes_stay_single():
    aggregator = EventAggregator()
    assert single(aggregator, times=15) == 10
    assert single(aggregator, times=15, now=599.0) == 0
    assert single(aggregator, times=15, now=600.0) == 10


def test_all_further_ones_are_the_same_event():
    aggregator = EventAggregator()
    single(aggregator, times=10)
    joined = aggregator.join("u", event("g"), 1.0)
    assert joined is not None
    assert joined is aggregator.join("u", event("g"), 2.0)


def test_jobs_reasons_and_groups_are_counted_apart():
    aggregator = EventAggregator()
    single(aggregator, times=11)
    assert aggregator.join("another", event("g"), 0.0) is None
    assert aggregator.join("u", event("another"), 0.0) is None
    assert aggregator.join("u", event("g", "Restarting"), 0.0) is None


def test_events_without_a_group_are_never_joined():
    assert single(EventAggregator(), times=100, group="") == 100


def test_groups_that_are_remembered_are_bounded():
    aggregator = EventAggregator()
    for number in range(MAX_GROUPS + 10):
        aggregator.join(str(number), event(), 0.0)
    assert len(aggregator._groups) == MAX_GROUPS


def test_events_of_failed_pods_are_grouped_by_role_and_cause():
    world = job(worker=3, evaluator=1).running()
    world.pod("worker", 0, failed(1)).pod("worker", 1, failed(1)).pod("worker", 2, failed(143))
    world.pod("evaluator", 0, failed(1))
    groups = [one.group for one in world.decide().plan.events if one.reason == "PodFailed"]
    assert sorted(groups) == ["evaluator UserError", "worker Preempted", "worker UserError", "worker UserError"]
