from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from dtj_operator.cache.job_cache import CachedJob
from dtj_operator.controller.metrics import Metrics

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


def status(*conditions: str, **rest: Any) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": "True", "reason": f"{kind}Reason"} for kind in conditions], **rest}


def value(metrics: Metrics, name: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_a_job_counts_once_however_often_its_status_is_written():
    metrics = Metrics()
    metrics.record_status_change({}, status("Created"))
    metrics.record_status_change(status("Created"), status("Created", "Running"))
    metrics.record_status_change(status("Created", "Running"), status("Created", "Failed"))
    metrics.record_status_change(status("Created", "Failed"), status("Created", "Failed"))
    assert value(metrics, "dtj_jobs_created_total") == 1
    assert value(metrics, "dtj_jobs_failed_total", reason="FailedReason") == 1
    assert value(metrics, "dtj_jobs_succeeded_total") == 0


def test_restarts_count_by_cause_and_only_what_is_new():
    metrics = Metrics()
    metrics.record_status_change(
        status(restarts={"byCause": {"Killed": 3}}), status(restarts={"byCause": {"Killed": 5, "Evicted": 1}})
    )
    assert value(metrics, "dtj_restarts_total", cause="Killed") == 2
    assert value(metrics, "dtj_restarts_total", cause="Evicted") == 1


def test_counters_by_cause_and_reason_begin_at_0_so_that_prometheus_sees_their_first_increase():
    metrics = Metrics()
    assert value(metrics, "dtj_restarts_total", cause="Killed") == 0
    assert value(metrics, "dtj_in_place_recoveries_total", cause="Stalled") == 0
    assert value(metrics, "dtj_jobs_failed_total", reason="MaxRestartsExceeded") == 0


def test_a_recovery_is_observed_once():
    metrics = Metrics()
    opened = status(lastIncident={"time": "t"})
    closed = status(lastIncident={"time": "t", "recoverySeconds": 1.5})
    metrics.record_status_change(opened, closed)
    metrics.record_status_change(closed, {**closed, "workers": "2/2"})
    assert value(metrics, "dtj_recovery_seconds_count") == 1
    assert value(metrics, "dtj_recovery_seconds_sum") == 1.5


def job(name: str, **status: Any) -> CachedJob:
    metadata = {"namespace": "ml", "name": name, "uid": f"secret-{name}", "resourceVersion": "1"}
    return CachedJob({"metadata": metadata, "spec": {}, "status": status})


def test_the_gauges_of_jobs_are_computed_when_asked():
    metrics = Metrics()
    jobs = [job("a", phase="Running", strategy={"type": "Mirrored"}), job("b")]
    metrics.register_jobs(lambda: jobs)
    assert value(metrics, "dtj_jobs", phase="Running") == 1
    one = {"namespace": "ml", "name": "a", "phase": "Running", "strategy": "Mirrored"}
    assert value(metrics, "dtj_job_info", **one) == 1
    assert value(metrics, "dtj_job_info", namespace="ml", name="b", phase="Pending", strategy="") == 1
    jobs.append(job("c", phase="Running"))
    assert value(metrics, "dtj_jobs", phase="Running") == 2
    assert value(metrics, "dtj_jobs", phase="Pending") == 1
    del jobs[0]
    assert value(metrics, "dtj_job_info", **one) is None
    assert metrics.text().count(b"dtj_job_info{") == len(jobs)


def test_the_uid_of_a_job_which_signs_requests_to_its_pods_is_not_shown():
    metrics = Metrics()
    metrics.register_jobs(lambda: [job("a", phase="Running")])
    assert b"secret-" not in metrics.text()


def test_reconciliations_the_queue_requests_and_leadership_are_counted():
    metrics = Metrics()
    metrics.record_add()
    metrics.record_add()
    metrics.record_queue_wait(0.5)
    metrics.record_retry()
    metrics.record_reconcile("success", 0.1)
    metrics.record_reconcile("error", 0.2)
    metrics.record_request("POST", "201")
    metrics.record_request("POST", "201")
    metrics.record_pod_created()
    metrics.set_leader(True)
    one = {"controller": "distributedtrainingjob"}
    line = {"name": "distributedtrainingjob"}
    assert value(metrics, "workqueue_depth", **line) == 1
    assert value(metrics, "workqueue_adds_total", **line) == 2
    assert value(metrics, "workqueue_retries_total", **line) == 1
    assert value(metrics, "workqueue_queue_duration_seconds_sum", **line) == 0.5
    assert value(metrics, "controller_runtime_reconcile_total", result="success", **one) == 1
    assert value(metrics, "controller_runtime_reconcile_errors_total", **one) == 1
    assert value(metrics, "controller_runtime_reconcile_time_seconds_count", **one) == 2
    assert value(metrics, "rest_client_requests_total", code="201", method="POST") == 2
    assert value(metrics, "dtj_pods_created_total") == 1
    assert value(metrics, "leader_election_master_status", name="dtj-operator") == 1


def test_the_page_lists_every_metric_with_its_words():
    metrics = Metrics()
    metrics.register_jobs(list)
    served = {
        family.name + ("_total" if family.type == "counter" else ""): family.documentation
        for family in metrics.registry.collect()
        if not family.name.startswith(("process_", "python_"))
    }
    listed = dict(re.findall(r"^\| `(\w+)` \|.*\| (.+) \|$", PAGE.read_text(), re.MULTILINE))
    assert listed == served
