"""Recoveries in place: the trainers tell of them, and the job's status counts them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtj_operator.reconcile.decide import decide
from dtj_operator.reconcile.state.trainer_messages import COUNTS_BELOW, read_progress, read_recoveries
from tests.support.job_builder import JobBuilder, done, failed, job, ready, told

KILLED = {"time": "2026-01-01T12:00:07.250Z", "seconds": 0.312, "cause": "killed", "role": "worker", "index": 1}


def answer(world: JobBuilder, count: int, *, uid: str = "", **last: Any) -> list[str]:
    """One pass after the success pod has answered. Returns the messages of the events."""
    uid = uid or world.pods["train-worker-0"]["metadata"]["uid"]
    recoveries = read_recoveries({"recoveries": {"count": count, "last": KILLED | last}}, uid, world.now)
    plan = decide(replace(world.snapshot(), recoveries=recoveries), world.now)
    world.apply(plan)
    return [event.message for event in plan.events if event.reason == "RecoveredInPlace"]


def test_a_recovery_in_place_is_counted_once_told_by_an_event_and_kept_in_status():
    world = job(worker=2).running().later(10)
    assert answer(world, 1) == ["train-worker-1 was killed; all train again after 0.3 s."]
    assert answer(world, 1) == []
    status = world.raw["status"]
    assert status["restarts"] == {"total": 0, "charged": 0, "byCause": {}, "inPlace": 1}
    assert status["lastRecovery"] == {
        "time": "2026-01-01T12:00:07.250000Z",
        "seconds": 0.312,
        "cause": "Killed",
        "role": "worker",
        "index": 1,
    }


def test_the_recoveries_of_each_success_pod_are_added_up_and_none_counts_twice():
    world = job(worker=2).running().later(10)
    answer(world, 2)
    (message,) = answer(world, 5)
    assert "3 recoveries" in message
    before = world.pods["train-worker-0"]["metadata"]["uid"]
    world.pod("worker", 0, told("killed", 137, recoveries={"count": 6, "last": KILLED})).reconcile().later(2)
    assert world.status.restarts.in_place == 6
    world.reconcile().each(ready()).reconcile()
    answer(world, 6, uid=before)  # a late answer of the pod that was replaced
    answer(world, 1)
    assert world.status.restarts.in_place == 7


def test_the_termination_message_of_a_success_tells_of_recoveries_too():
    world = job(worker=1).running()
    message = (
        '{"class":"done","recoveries":{"count":1,"last":{"cause":"stalled","seconds":2,"role":"worker","index":0}}}'
    )
    world.pod("worker", 0, done(message=message)).reconcile()
    assert world.status.phase == "Succeeded"
    assert world.seen("RecoveredInPlace") == ["train-worker-0 stalled; all train again after 2.0 s."]


@pytest.mark.parametrize("told_of", [
    7, {}, {"count": 1}, {"count": -1, "last": KILLED}, {"count": True, "last": KILLED}, {"count": 0, "last": KILLED},
    {"count": 2**70, "last": KILLED}, {"count": 1, "last": "x"},
])  # fmt: skip
def test_nonsense_about_recoveries_is_ignored(told_of: Any):
    assert read_recoveries({"recoveries": told_of}, "u", job().now) is None


def test_what_a_pod_says_of_its_recoveries_is_bounded():
    world = job(worker=1).running()
    said: dict[str, Any] = {
        "cause": "x" * 9000,
        "role": "y" * 9000,
        "index": 2**70,
        "seconds": float("inf"),
        "time": "9999-01-01",
    }
    for count in (1, COUNTS_BELOW - 1):
        answer(world, count, **said)
    world.pods["train-worker-0"]["metadata"]["uid"] = "another"
    answer(world, COUNTS_BELOW - 1, **said)
    status = world.raw["status"]
    assert status["restarts"]["inPlace"] == COUNTS_BELOW - 1
    assert status["lastRecovery"] == {
        "time": f"{world.now:%Y-%m-%dT%H:%M:%S.%fZ}",
        "seconds": 0.0,
        "cause": "Unknown",
        "role": "",
        "index": 0,
    }


OFFSETS = st.timedeltas(timedelta(hours=-23, minutes=-59), timedelta(hours=23, minutes=59)).map(timezone)
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers(), max_size=2),
    st.datetimes(timezones=OFFSETS).map(lambda time: time.isoformat()),
    st.sampled_from(["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "worker", "killed"]),
)  # fmt: skip


@given(
    last=st.fixed_dictionaries({}, optional=dict.fromkeys(KILLED, VALUES)),
    values=st.fixed_dictionaries({}, optional=dict.fromkeys(("step", "epoch", "loss", "metrics"), VALUES)),
)
def test_whatever_a_pod_says_breaks_nothing(last: dict[str, Any], values: dict[str, Any]):
    world = job(worker=1).running()
    recoveries = read_recoveries({"recoveries": {"count": 1, "last": last}}, "u", world.now)
    assert recoveries is not None
    assert recoveries.last.time <= world.now
    assert recoveries.last.model_dump_json()
    progress = read_progress(values, world.now)
    assert progress is None or progress.model_dump_json()


# What people see in the end


def polled(world: JobBuilder, **values: Any) -> None:
    latest = read_progress(values, world.now)
    world.apply(decide(replace(world.snapshot(), progress=latest), world.now))


POLLED = {"step": 40, "totalSteps": 90, "epoch": 0, "loss": 0.19, "stepsPerSecond": 7.0, "lastCheckpointStep": 30}


def ended(**values: Any) -> dict[str, Any]:
    world = job(worker=1).running()
    polled(world, **POLLED)
    world.pod("worker", 0, {**told("done", 0, **values), "phase": "Succeeded"}).reconcile()
    progress = world.raw["status"]["progress"]
    del progress["updatedAt"]
    return dict(progress)


def test_the_final_progress_is_that_of_the_termination_message_and_nothing_older_stands_beside_it():
    final = {
        "step": 90,
        "totalSteps": 90,
        "epoch": 2.0,
        "loss": 0.009,
        "stepsPerSecond": 9.0,
        "examplesPerSecond": 576.0,
    }
    assert ended(checkpointStep=90, metrics={"loss": 0.009}, **final) == {
        **final,
        "metrics": {"loss": 0.009},
        "lastCheckpointStep": 90,
    }
    assert ended(step=90, metrics={"loss": 0.009}) == {"step": 90, "metrics": {"loss": 0.009}}


def test_values_of_the_same_step_and_of_an_image_without_our_trainer_stay():
    assert ended(step=40, metrics={"loss": 0.19}) == {**POLLED, "metrics": {"loss": 0.19}}
    assert ended() == {**POLLED, "metrics": {}}


def test_the_workers_of_a_succeeded_job_are_all_there():
    world = job(worker=2).running().pod("worker", 0, done()).reconcile()
    assert (world.status.phase, world.status.workers) == ("Succeeded", "2/2")
    world = job(worker=2).spec(failurePolicy={"maxRestarts": 0}).running()
    world.pod("worker", 1, failed(1)).reconcile().later(2).reconcile()
    assert (world.status.phase, world.status.workers) == ("Failed", "1/2")
