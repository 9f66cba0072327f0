"""What Prometheus scrapes from the operator and a trainer: the metrics that docs/reference lists."""

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from e2e import chart
from e2e.cluster.api_client import core_path
from e2e.scenarios.fixtures import JobNamespace, kill, time_recovery, wait_for_checkpoint, wait_for_step

pytestmark = pytest.mark.e2e

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
"""Where a metric is a row of a table that begins with its name, or names."""


def told(page: str) -> set[str]:
    """Return the metrics that a page lists."""
    rows = re.findall(
        r"^\| (`(?:dtj|process|controller|workqueue|rest|leader)_[^|]*)\|", (REFERENCE / page).read_text(), re.MULTILINE
    )
    return {name for row in rows for name in re.findall(r"`(\w+)", row)}


def scraped(job_namespace: JobNamespace, namespace: str, pod: str, port: int) -> set[str]:
    """Scrape a pod; return its metrics' names by Prometheus' own parser, a counter's with `_total`."""
    page = job_namespace.installation.api.text(core_path(namespace, "pods", f"{pod}:{port}") + "/proxy/metrics")
    return {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in text_string_to_metric_families(page)
    }


def test_a_trainer_and_the_operator_show_all_that_the_docs_name(job_namespace: JobNamespace) -> None:
    job, _ = job_namespace.run(epochs=60)
    with job_namespace.monitor(job) as monitor:
        wait_for_step(monitor, 2, step=20)
        wait_for_checkpoint(monitor)
        time_recovery(monitor, kill(job_namespace.installation, monitor.refresh().pods[1]))
    of_trainer = scraped(job_namespace, job_namespace.name, "digits-worker-0", 9401)
    (operator,) = job_namespace.installation.operator_pods()
    of_operator = scraped(job_namespace, chart.NAMESPACE, operator["metadata"]["name"], 8080)
    job.delete()
    assert told("dtj-run.md") - of_trainer == set()
    assert told("metrics.md") - of_operator == set()
