"""The way out of a pass: from the scope to the plan.

A status that equals the job's own is returned as that very object, so that nobody compares it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.persisted_state import PersistedState
from dtj_operator.api.status import JobStatus
from dtj_operator.builders.metadata import worker_selector
from dtj_operator.reconcile.state.plan import StatusWrite
from dtj_operator.reconcile.state.replicas import write_indexes, write_records

if TYPE_CHECKING:
    from dtj_operator.api.enums import Role
    from dtj_operator.reconcile.state.scope import ReconcileScope


def build_status(scope: ReconcileScope) -> JobStatus:
    """Return the status to persist: the job's own status object where nothing has changed."""
    status = _status_of(scope)
    return scope.before if status == scope.before else status


def status_write(status: JobStatus, before: JobStatus) -> StatusWrite:
    """Return how long the write of a status may wait: what changes nothing but counts may wait for company."""
    return StatusWrite.DELAYED if status is before or _hard(status) == _hard(before) else StatusWrite.NOW


def _status_of(scope: ReconcileScope) -> JobStatus:
    slots = scope.before.persisted_state.replicas
    if scope.records != scope.records_before:
        slots = write_records(scope.records)
    completed: dict[Role, list[int]] = {}
    for replica in sorted(scope.completed):
        completed.setdefault(replica.role, []).append(replica.index)
    container_restarts: dict[Role, dict[int, int]] = {}
    for replica, count in sorted(scope.container_restarts.items()):
        container_restarts.setdefault(replica.role, {})[replica.index] = count
    incident = scope.incident
    if incident is not None:
        incident = incident.model_copy(update={"failed": write_indexes(scope.failed)})
    persisted = PersistedState.model_construct(
        replicas=slots,
        incident=incident,
        container_restarts=container_restarts,
        evaluators=tuple(scope.evaluators[i] for i in sorted(scope.evaluators)),
        first_pod_time=scope.first_pod_time,
        first_running_time=scope.first_running_time,
        started=scope.started,
    )
    return JobStatus.model_construct(
        observed_generation=scope.job.generation,
        phase=scope.phase,
        message=scope.message,
        workers=scope.workers,
        conditions=scope.conditions.in_order(),
        strategy=scope.strategy,
        spec_hash=scope.spec_hash,
        start_time=scope.start_time,
        completion_time=scope.completion_time,
        replica_statuses=scope.replica_statuses,
        attempt=scope.attempt,
        restarts=scope.restarts,
        backoff=scope.backoff,
        last_incident=scope.last_incident,
        completed={role: tuple(indexes) for role, indexes in completed.items()},
        selector=worker_selector(scope.job),
        progress=scope.progress,
        persisted_state=persisted,
    )


def _hard(status: JobStatus) -> tuple[object, ...]:
    """The part of a status whose change cannot wait: all but counts, words and progress."""
    persisted = status.persisted_state
    return (
        status.observed_generation,
        [(c.type, c.status, c.reason) for c in status.conditions],
        status.strategy,
        status.spec_hash,
        status.start_time,
        status.completion_time,
        status.attempt,
        status.restarts,
        status.backoff,
        status.last_incident,
        status.completed,
        {role: counts.restarts for role, counts in status.replica_statuses.items()},
        {r: [(g.attempt, g.indexes) for g in groups] for r, groups in persisted.replicas.items()},
        persisted.incident,
        persisted.container_restarts,
        persisted.evaluators,
        persisted.first_running_time,
        persisted.started,
    )
