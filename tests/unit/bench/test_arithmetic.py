"""The arithmetic of the measurements."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bench.operator import chart, creation, hour, lifecycle, meter, record
from bench.operator.creation import Comparison, Round
from bench.operator.fleet import Creations
from bench.trainer import overhead
from bench.trainer.overhead import EpochCost
from e2e.cluster.audit import Request

BEGAN = datetime(2026, 11, 21, 12, tzinfo=UTC)


def a_round(rate: float, *, client: float = 1.0, server: float = 3.0) -> Round:
    return Round(rate, Counter({"create pods": 10, "create events": 2}), 2, client, server, 0.0)


def request(at: float, verb: str, name: str, *, agent: str = "dtj-operator/1", **more: Any) -> Request:
    values: dict[str, Any] = {
        "resource": "pods",
        "subresource": "",
        "namespace": lifecycle.STANDING,
        "code": 201,
        "user": "",
    } | more
    return Request(at=BEGAN + timedelta(seconds=at), user_agent=agent, verb=verb, name=name, **values)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1.0), (0.05, 1.0), (0.5, 10.0), (0.51, 11.0), (0.95, 19.0), (1.0, 20.0)]
)
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(share: float, expected: float):
    assert lifecycle.percentile([float(n) for n in range(20, 0, -1)], share) == expected


def test_the_percentile_of_one_value_is_that_value():
    assert lifecycle.percentile([3.0], 0.95) == 3.0


def test_samples_are_taken_from_the_groups_that_the_host_disturbed_least_whatever_they_took():
    measured = ((1, 9.0), (3, 0.5), (2, 1.0))
    groups = [lifecycle.Replacements([taken] * 20, [taken] * 20, stolen) for taken, stolen in measured]
    assert lifecycle.least_disturbed(groups, 40) == [groups[1], groups[2]]
    assert lifecycle.least_disturbed(groups, 41) == [groups[1], groups[2], groups[0]]


def test_the_ratio_is_the_median_over_pairs_so_that_one_bad_pair_does_not_count():
    bare = (a_round(100), a_round(10), a_round(100))
    operator = (a_round(80), a_round(40), a_round(70))
    assert Comparison(bare, operator).ratio == 0.8


def test_the_cost_ratio_compares_processor_time_of_client_and_server_for_each_pod():
    found = Comparison((a_round(1, client=1, server=3),), (a_round(99, client=2, server=6),))
    assert found.cost_ratio == 0.5
    assert a_round(1).requests_per_job == 6


def test_what_is_not_the_server_or_the_client_counts_as_others():
    before = meter.CpuTimes(at=10.0, machine=100.0, server=50.0)
    after = meter.CpuTimes(at=14.0, machine=108.0, server=53.0)
    assert meter.between(before, after).others(client=1.0) == 1.0


def test_a_replacement_is_timed_from_the_reported_failure_to_the_next_creation_of_that_pod():
    log = [
        request(0.0, "create", "a"),
        request(1.0, "patch", "a", agent="dtj-bench", subresource="status", code=200),
        request(1.2, "create", "b"),
        request(1.3, "create", "a", code=409),
        request(1.5, "create", "a"),
        request(1.7, "create", "a"),
        request(2.0, "patch", "c", agent="dtj-bench", subresource="status", code=200, namespace="elsewhere"),
        request(2.1, "create", "c", namespace="elsewhere"),
    ]
    assert list(lifecycle._latencies(log, lifecycle.STANDING)) == [pytest.approx(0.5)]


def test_lists_watches_and_leases_are_not_counted_for_jobs():
    asked = [
        request(0, "list", ""),
        request(0, "watch", ""),
        request(0, "update", "dtj-operator", resource="leases"),
        request(0, "create", "a"),
        request(0, "patch", "train", resource="distributedtrainingjobs", subresource="status"),
    ]
    counted = creation.count_by_kind(r for r in asked if creation.for_jobs(r))
    assert counted == {"create pods": 1, "patch distributedtrainingjobs/status": 1}


def test_only_accepted_creations_of_that_namespace_are_counted_and_half_a_line_waits(tmp_path: Path):
    log = tmp_path / "audit.log"
    line = '{"verb":"%s","objectRef":{"resource":"pods","namespace":"%s","name":"a"},"responseStatus":{"code":%d}}\n'
    whole = line % ("create", "here", 201)
    log.write_text(
        whole + line % ("create", "there", 201) + line % ("create", "here", 409) + line % ("patch", "here", 201)
    )
    seen = Creations(log, "here")
    assert seen.count() == 1
    with log.open("a") as end:
        end.write(whole[:40])
    assert seen.count() == 1
    with log.open("a") as end:
        end.write(whole[40:])
    assert seen.count() == 2
    assert Creations(log, "here", mark=log.stat().st_size).count() == 0


def test_a_run_that_is_cut_short_leaves_what_it_found_and_where_it_was(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(record, "RESULT", tmp_path / "results" / "bench.json")
    figures = record.Figures({"jobs": 5})
    with figures.stage("create"):
        figures.add({"create_ratio": 0.8})
    assert record.last() == {"jobs": 5, "create_ratio": 0.8}

    def cut() -> None:
        with figures.stage("standing"):
            figures.add({"rss_mb": 90.0})
            raise TimeoutError

    with pytest.raises(TimeoutError):
        cut()
    assert record.last() == {"jobs": 5, "create_ratio": 0.8, "cut_short": "standing", "rss_mb": 90.0}


def test_growth_compares_the_halves_of_the_hour_and_leaves_the_start_out():
    assert hour.growth([60.0, 80.0, 80.0, 81.0, 80.0, 80.0, 99.0]) == 0.0
    assert hour.growth([60.0, 80.0, 81.0, 82.0, 90.0, 91.0, 92.0]) == 10.0


def test_a_goal_knows_its_good_side():
    rate = chart.Goal("create_ratio", "", 0.8, least=True)
    memory = chart.Goal("rss_mb", "", 120)
    assert [rate.reached(value) for value in (0.79, 0.8, 1.0)] == [False, True, True]
    assert [memory.reached(value) for value in (119.0, 120.0, 121.0)] == [True, True, False]
    assert memory.share(60) == 0.5


def test_the_kept_picture_shows_the_newest_kept_figures():
    kept = Path(chart.__file__).parents[1] / "results"
    figures = max((json.loads(path.read_text()) for path in kept.glob("operator-*.json")), key=lambda f: f["date"])
    rows = chart.measured(figures)
    assert rows[0][0].key == "create_ratio"
    picture = (kept / chart.NAME).read_text()
    assert [f"{value:g}{goal.unit}" for goal, value in rows if f">{value:g}{goal.unit}<" not in picture] == []


def test_what_dtj_run_costs_counts_a_save_as_if_training_stood_still():
    turns = {"plain": EpochCost(2.02, 2.0), "alone": EpochCost(1.0, 1.5), "ours": EpochCost(1.01, 1.56)}
    found = {"dtj_checkpoint_seconds_sum": 1.2, "dtj_checkpoint_seconds_count": 2.0}
    figures = overhead.figures([turns, turns], found)
    assert figures["overhead_percent"] == pytest.approx(1 + 100 * 0.6 / 60)
    assert figures["overhead_cpu_percent"] == pytest.approx(4)
    assert figures["ratio_plain_python"] == pytest.approx(2)
