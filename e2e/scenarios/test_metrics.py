"""What Prometheus finds at the operator and at a trainer: the page in docs/reference, in a format that it can read."""

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from e2e import chart
from e2e.api import core_path
from e2e.scenarios.fixtures import Place, checkpoint_made, kill, time_recovery, training

pytestmark = pytest.mark.e2e

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
"""Where a metric is a row of a table that begins with its name, or names."""


def told(page: str) -> set[str]:
    """The metrics that a page names."""
    rows = re.findall(
        r"^\| (`(?:dtj|process|controller|workqueue|rest|leader)_[^|]*)\|", (REFERENCE / page).read_text(), re.MULTILINE
    )
    return {name for row in rows for name in re.findall(r"`(\w+)", row)}


def scraped(place: Place, namespace: str, pod: str, port: int) -> set[str]:
    """Names of the metrics of a pod, by Prometheus' own parser; a counter's with `_total`."""
    page = place.ground.api.text(core_path(namespace, "pods", f"{pod}:{port}") + "/proxy/metrics")
    return {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in text_string_to_metric_families(page)
    }


def test_a_trainer_and_the_operator_show_all_that_the_docs_name(place: Place) -> None:
    job, _ = place.run(epochs=60)
    with place.watch(job) as watcher:
        training(watcher, 2, step=20)
        checkpoint_made(watcher)
        time_recovery(watcher, kill(place.ground, watcher.look().pods[1]))
    of_trainer = scraped(place, place.namespace, "digits-worker-0", 9401)
    (operator,) = place.ground.operator_pods()
    of_operator = scraped(place, chart.NAMESPACE, operator["metadata"]["name"], 8080)
    job.delete()
    assert told("dtj-run.md") - of_trainer == set()
    assert told("metrics.md") - of_operator == set()
