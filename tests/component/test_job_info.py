"""dtj_job_info: one series for each job that this operator handles, for as long as the job exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from tests.component.running_operator import JOBS, job, running_operator, until

if TYPE_CHECKING:
    from dtj_operator.controller.metrics import Metrics


def series(metrics: Metrics) -> list[dict[str, str]]:
    """Return the labels of all series of dtj_job_info."""
    families = text_string_to_metric_families(metrics.text().decode())
    return [sample.labels for family in families for sample in family.samples if sample.name == "dtj_job_info"]


async def test_a_job_has_one_series_from_its_creation_to_its_deletion(api_server):
    async with running_operator(api_server) as operator:
        metrics = operator.manager.metrics
        assert series(metrics) == []
        api_server.create(JOBS, job("train"))
        api_server.create(JOBS, job("other", managedBy="example.org/other"))
        seen = {"name": "train", "namespace": "default", "phase": "Pending", "strategy": "MultiWorkerMirrored"}
        await until(lambda: series(metrics) == [seen])
        api_server.delete(JOBS, "default", "train")
        await until(lambda: series(metrics) == [])
