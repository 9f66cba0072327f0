"""Metrics: all Prometheus metrics of the operator, those of controller-runtime and its own of jobs.

Counters of jobs grow only when the API server has accepted the status that says so. So nothing is counted twice, also
not by two operators or after a restart.
"""

from __future__ import annotations

from collections import Counter as PhaseCount
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from dtj_operator.api.enums import FAILED_REASONS, Cause, ConditionType, Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from dtj_operator.cache.job_cache import CachedJob

CONTROLLER = "distributedtrainingjob"
RESULTS = ("success", "error", "requeue", "requeue_after")
RECOVERY_BUCKETS = (0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 900)
RECONCILE_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)


class Metrics:
    """The operator's metrics, in a separate registry."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        registry = self.registry
        reconciles = Counter(
            "controller_runtime_reconcile_total",
            "Reconciliations by result.",
            ["controller", "result"],
            registry=registry,
        )
        self._reconciles = {result: reconciles.labels(CONTROLLER, result) for result in RESULTS}
        errors = Counter(
            "controller_runtime_reconcile_errors_total",
            "Reconciliations that failed.",
            ["controller"],
            registry=registry,
        )
        self._errors = errors.labels(CONTROLLER)
        self._reconcile_seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Duration of a reconciliation.",
            ["controller"],
            buckets=RECONCILE_BUCKETS,
            registry=registry,
        ).labels(CONTROLLER)
        self._depth = Gauge("workqueue_depth", "Jobs in the work queue.", ["name"], registry=registry).labels(
            CONTROLLER
        )
        self._adds = Counter(
            "workqueue_adds_total", "Jobs added to the work queue.", ["name"], registry=registry
        ).labels(CONTROLLER)
        self._retries = Counter(
            "workqueue_retries_total", "Jobs requeued after an error.", ["name"], registry=registry
        ).labels(CONTROLLER)
        self._queue_seconds = Histogram(
            "workqueue_queue_duration_seconds",
            "Time of a job in the work queue.",
            ["name"],
            buckets=RECONCILE_BUCKETS,
            registry=registry,
        ).labels(CONTROLLER)
        self._requests = Counter(
            "rest_client_requests_total",
            "Requests to the API server by method and status code.",
            ["code", "method"],
            registry=registry,
        )
        self._bound_requests: dict[tuple[str, str], Counter] = {}
        self._leader = Gauge(
            "leader_election_master_status", "1 while this process leads.", ["name"], registry=registry
        ).labels("dtj-operator")
        self._jobs_created = Counter("dtj_jobs_created_total", "Jobs created.", registry=registry)
        self._jobs_succeeded = Counter("dtj_jobs_succeeded_total", "Jobs that succeeded.", registry=registry)
        self._jobs_failed = Counter("dtj_jobs_failed_total", "Jobs that failed.", ["reason"], registry=registry)
        self._restarts = Counter("dtj_restarts_total", "Restarts by cause.", ["cause"], registry=registry)
        self._in_place_recoveries = Counter(
            "dtj_in_place_recoveries_total", "Recoveries in place by cause.", ["cause"], registry=registry
        )
        # From 0 on, because Prometheus sees no increase in the first value of a series.
        for reason in FAILED_REASONS:
            self._jobs_failed.labels(reason)
        for cause in Cause:
            self._restarts.labels(cause)
            self._in_place_recoveries.labels(cause)
        self._pods_created = Counter("dtj_pods_created_total", "Pods created.", registry=registry)
        self._recovery = Histogram(
            "dtj_recovery_seconds",
            "Seconds from the first failure until all replicas run again.",
            buckets=RECOVERY_BUCKETS,
            registry=registry,
        )

    def register_jobs(self, jobs: Callable[[], Iterable[CachedJob]]) -> None:
        """Serve dtj_jobs and dtj_job_info, computed from the jobs at each scrape."""
        self.registry.register(_Jobs(jobs))

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def record_add(self) -> None:
        """Count a key that has been added to the work queue."""
        self._adds.inc()
        self._depth.inc()

    def record_queue_wait(self, seconds: float) -> None:
        """Record how long a key was in the work queue."""
        self._depth.dec()
        self._queue_seconds.observe(seconds)

    def record_retry(self) -> None:
        """Count a key that is requeued after an error."""
        self._retries.inc()

    def record_reconcile(self, result: str, seconds: float) -> None:
        """Record one reconciliation of one job; result is success, error, requeue or requeue_after."""
        self._reconciles[result].inc()
        self._reconcile_seconds.observe(seconds)
        if result == "error":
            self._errors.inc()

    def record_request(self, method: str, code: str) -> None:
        """Count a request to the API server; code is the HTTP status, or `<error>` without a response."""
        bound = self._bound_requests.get((method, code))
        if bound is None:
            bound = self._bound_requests[method, code] = self._requests.labels(code, method)
        bound.inc()

    def set_leader(self, leads: bool) -> None:  # noqa: FBT001  (the value of the gauge)
        """Set whether this process leads."""
        self._leader.set(leads)

    def record_pod_created(self) -> None:
        """Count a pod that the API server has created."""
        self._pods_created.inc()

    def record_status_change(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Count what a status write changed: the status before and after it, as in the API."""
        before, after = _conditions(old), _conditions(new)
        if ConditionType.CREATED in after and ConditionType.CREATED not in before:
            self._jobs_created.inc()
        if ConditionType.SUCCEEDED in after and ConditionType.SUCCEEDED not in before:
            self._jobs_succeeded.inc()
        if ConditionType.FAILED in after and ConditionType.FAILED not in before:
            self._jobs_failed.labels(after[ConditionType.FAILED]).inc()
        counted: Mapping[str, int] = (old.get("restarts") or {}).get("byCause") or {}
        for cause, count in ((new.get("restarts") or {}).get("byCause") or {}).items():
            more = count - counted.get(cause, 0)
            if more > 0:
                self._restarts.labels(cause).inc(more)
        recovered = (new.get("restarts") or {}).get("inPlace", 0) - (old.get("restarts") or {}).get("inPlace", 0)
        if recovered > 0:
            self._in_place_recoveries.labels((new.get("lastRecovery") or {}).get("cause", Cause.UNKNOWN)).inc(recovered)
        incident = new.get("lastIncident") or {}
        seconds = incident.get("recoverySeconds")
        previous = old.get("lastIncident") or {}
        known = previous.get("recoverySeconds") is not None and previous.get("time") == incident.get("time")
        if seconds is not None and not known:
            self._recovery.observe(seconds)


class _Jobs:
    """A collector that computes dtj_jobs and dtj_job_info at each scrape, so that a deleted job leaves nothing."""

    def __init__(self, jobs: Callable[[], Iterable[CachedJob]]) -> None:
        self._jobs = jobs

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics; the registry calls this."""
        # No UID: it signs requests to the job's pods.
        labels = ["namespace", "name", "phase", "strategy"]
        info = GaugeMetricFamily("dtj_job_info", "1 for each job that exists.", labels=labels)
        count: PhaseCount[str] = PhaseCount()
        for job in self._jobs():
            phase = job.phase or Phase.PENDING
            count[phase] += 1
            info.add_metric([job.namespace, job.name, phase, job.strategy], 1)
        by_phase = GaugeMetricFamily("dtj_jobs", "Jobs by phase.", labels=["phase"])
        for phase in Phase:
            by_phase.add_metric([phase], count[phase])
        yield by_phase
        yield info


def _conditions(status: Mapping[str, Any]) -> dict[str, str]:
    """Return the reasons of the conditions that are True, by type."""
    return {
        condition["type"]: condition.get("reason", "")
        for condition in status.get("conditions") or ()
        if condition.get("status") == "True"
    }
