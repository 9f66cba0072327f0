"""When a refused write is tried again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dtj_operator.reconcile.state.blocked_writes import BlockedReason, BlockedWrite, record_refusal, too_early
from dtj_operator.reconcile.state.plan import CreateService
from tests.support.job_builder import NOW, failed, job, ready


def early(blocked: BlockedWrite, target: str, generation: int = 1, *, after: float = 0) -> bool:
    return too_early([blocked], target, generation, NOW + timedelta(seconds=after))


def test_retries_come_after_5_seconds_then_ever_later_up_to_60():
    waits, now = [], NOW
    before: BlockedWrite | None = None
    for _ in range(6):
        before = record_refusal(BlockedReason.QUOTA_EXCEEDED, "p", "no", generation=1, now=now, before=before)
        waits.append((before.retry_at - now).total_seconds())
        now = before.retry_at
    assert waits == [5, 10, 20, 40, 60, 60]
    assert before is not None
    assert before.since == NOW
    other = record_refusal(BlockedReason.POD_REFUSED, "p", "policy", generation=1, now=now, before=before)
    assert (other.since, other.pause) == (now, timedelta(seconds=5))


def test_a_pod_is_tried_again_soon_when_what_it_names_may_just_be_being_made():
    """`kubectl apply -f FOLDER` makes a ServiceAccount after the job that names it: 403 until then."""
    assert not early(
        record_refusal(BlockedReason.POD_REFUSED, "p", "no service account", generation=1, now=NOW), "p", after=5
    )


def test_an_invalid_template_is_tried_again_after_60_seconds_or_at_once_on_a_new_generation():
    blocked = record_refusal(BlockedReason.INVALID, "p", "no", generation=1, now=NOW)
    assert early(blocked, "p", after=59)
    assert not early(blocked, "p", after=60)
    assert not early(blocked, "p", generation=2)


def test_a_used_up_quota_stops_the_peers_but_a_taken_name_does_not():
    assert early(record_refusal(BlockedReason.QUOTA_EXCEEDED, "p", "full", generation=1, now=NOW), "q")
    assert not early(record_refusal(BlockedReason.NAME_TAKEN, "p", "foreign", generation=1, now=NOW), "q")


def test_a_second_refusal_makes_the_plan_wait_twice_as_long():
    world = job(worker=2)
    world.act()
    world.vanish("worker", 1).refuse(BlockedReason.QUOTA_EXCEEDED, "train-worker-1")
    world.later(5).refuse(BlockedReason.QUOTA_EXCEEDED, "train-worker-1")
    assert world.later(5).act().creates == []
    assert world.decide().plan.requeue_at == world.now + timedelta(seconds=5)
    assert world.later(5).act().creates == ["train-worker-1"]


def test_the_plan_makes_no_peer_of_a_pod_that_the_quota_has_refused_but_one_of_a_pod_whose_name_is_taken():
    world = job(worker=2)
    world.act()
    world.vanish("worker", 0).vanish("worker", 1).refuse(BlockedReason.QUOTA_EXCEEDED, "train-worker-0")
    assert world.act().creates == []
    world.blocked_writes.clear()
    assert world.refuse(BlockedReason.NAME_TAKEN, "train-worker-0").act().creates == ["train-worker-1"]


@pytest.mark.parametrize("scope", ["Pod", "Job"])
@pytest.mark.parametrize("kind", [BlockedReason.INVALID, BlockedReason.POD_REFUSED, BlockedReason.QUOTA_EXCEEDED])
def test_an_evaluator_that_is_refused_keeps_no_lost_worker_waiting(kind: BlockedReason, scope: str):
    world = job(worker=2, evaluator=1).spec(failurePolicy={"restartScope": scope})
    world.act()
    world.vanish("evaluator", 0).refuse(kind, "train-evaluator-0").reconcile().each(ready()).reconcile()
    world.pod("worker", 1, failed(143, disruption="PreemptionByScheduler")).reconcile().reap().reconcile()
    assert world.pods.keys() == {"train-worker-0", "train-worker-1"}


def test_an_evaluator_waits_while_the_quota_keeps_a_worker_out():
    world = job(worker=1, evaluator=1)
    world.act()
    world.vanish("worker", 0).vanish("evaluator", 0).refuse(BlockedReason.QUOTA_EXCEEDED, "train-worker-0")
    assert world.act().creates == []


def test_a_new_worker_that_the_quota_keeps_out_keeps_no_lost_one_waiting():
    world = job(chief=1, worker=2, ps=1).running().scale(3)
    world.act()
    world.vanish("worker", 2).refuse(BlockedReason.QUOTA_EXCEEDED, "train-worker-2").reap()
    world.raw["status"]["ledger"]["slots"]["worker"][1]["seen"] = ""
    world.reconcile().each(ready()).reconcile()
    world.pod("worker", 1, failed(143, disruption="PreemptionByScheduler")).reconcile()
    assert {"train-worker-1"} == world.pods.keys() & {"train-worker-1", "train-worker-2"}


def test_of_several_lost_workers_that_the_quota_keeps_out_one_is_tried():
    world = job(worker=3).running()
    world.pod("worker", 1, failed(143, disruption="PreemptionByScheduler"))
    world.pod("worker", 2, failed(143, disruption="PreemptionByScheduler"))
    assert world.act().creates == ["train-worker-1", "train-worker-2"]
    world.vanish("worker", 1).vanish("worker", 2).refuse(BlockedReason.QUOTA_EXCEEDED, "train-worker-1")
    assert world.act().creates == []
    assert world.later(5).act().creates == ["train-worker-1", "train-worker-2"]


def test_a_pod_that_is_refused_keeps_no_lost_service_waiting():
    world = job(worker=1, evaluator=1).running().vanish("evaluator", 0)
    world.act()
    world.vanish("evaluator", 0).refuse(BlockedReason.POD_REFUSED, "train-evaluator-0")
    world.service = None
    assert world.act().has(CreateService)
