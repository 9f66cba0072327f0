"""A real Prometheus scrapes a real operator and real trainers: every query has data, and every alert fires."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.control_plane import ControlPlane
from tests.contract.monitored_jobs import WINDOW, Scene, monitored
from tests.support import monitoring

pytestmark = [pytest.mark.contract, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def scene(
    strict_control_plane: ControlPlane, account: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    with monitored(strict_control_plane, account, tmp_path_factory.mktemp("monitoring")) as found:
        yield found


@pytest.mark.parametrize("alert", [rule["alert"] for rule in monitoring.alerts()])
def test_an_alert_fires_when_what_it_is_about_happens(scene: Scene, alert: str):
    assert alert in scene.fired


@pytest.mark.parametrize("panel", monitoring.panels(), ids=lambda panel: panel["title"])
def test_each_query_of_a_panel_has_data(scene: Scene, panel: dict[str, Any]):
    queries = [query["expr"] for query in panel["targets"]]
    assert [query for query in queries if not scene.prometheus.history(monitoring.quick(query, WINDOW))] == []


def test_a_pod_is_one_target_whatever_ports_and_containers_it_has(scene: Scene):
    labels = [series for series, _ in scene.prometheus.history('up{job="dtj-trainer",name="train"}')]
    assert len(labels) == 1
    assert labels[0] == {
        "__name__": "up", "job": "dtj-trainer", "instance": "127.0.0.2:9401", "namespace": "monitored",
        "pod": "train-worker-0", "name": "train", "role": "worker", "index": "0",
    }  # fmt: skip


def test_the_operators_metrics_join_those_of_the_trainers(scene: Scene):
    joined = (
        "dtj_steps_total * on (namespace, name) group_left (strategy) max by (namespace, name, strategy) (dtj_job_info)"
    )
    assert {(series["name"], series["strategy"]) for series, _ in scene.prometheus.history(joined)} >= {
        ("train", "OneDevice")
    }
