"""The status to persist, made of the parts of the scope, and how urgent its write is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.persisted_state import STATE_VERSION, PersistedState
from dtj_operator.api.status import JobStatus
from dtj_operator.builders.metadata import worker_selector
from dtj_operator.reconcile.state.plan import StatusWrite
from dtj_operator.reconcile.state.replicas import write_container_restarts, write_records
from dtj_operator.reconcile.status_summary import summarize_status

if TYPE_CHECKING:
    from dtj_operator.api.enums import Role
    from dtj_operator.reconcile.state.replicas import Replicas
    from dtj_operator.reconcile.state.scope import ReconcileScope


def build_status(scope: ReconcileScope) -> JobStatus:
    """Return the status to persist: the job's own status object where nothing has changed."""
    status = _status_of(scope)
    return scope.job.status if status == scope.job.status else status


def status_write(status: JobStatus, before: JobStatus) -> StatusWrite:
    """Return when a status has to be written: what changes nothing but counts, words and progress may wait."""
    return StatusWrite.DELAYED if status is before or _hard(status) == _hard(before) else StatusWrite.NOW


def _status_of(scope: ReconcileScope) -> JobStatus:
    replicas, recovery, lifecycle, summary = scope.replicas, scope.recovery, scope.lifecycle, summarize_status(scope)
    return JobStatus.model_construct(
        observed_generation=scope.job.generation,
        phase=summary.phase,
        message=summary.message,
        workers=summary.workers,
        conditions=scope.conditions.in_order(),
        strategy=lifecycle.strategy,
        spec_hash=lifecycle.spec_hash,
        profile_hash=_profile_hash(scope),
        start_time=lifecycle.start_time,
        completion_time=lifecycle.completion_time,
        replica_statuses=summary.replica_statuses,
        attempt=replicas.attempt,
        restarts=recovery.restarts,
        backoff=recovery.backoff,
        last_incident=recovery.last_incident,
        last_recovery=recovery.last_recovery,
        completed=_completed(replicas),
        selector=worker_selector(scope.job),
        progress=scope.progress,
        persisted_state=_persisted(scope),
    )


def _persisted(scope: ReconcileScope) -> PersistedState:
    """Return the persisted state. Records that have not changed are written back as they were read."""
    replicas, before = scope.replicas, scope.job.status.persisted_state
    changed = replicas.changed
    return PersistedState.model_construct(
        version=STATE_VERSION,
        replicas=write_records(replicas.records) if changed else before.replicas,
        incident=scope.recovery.persisted_incident(),
        container_restarts=write_container_restarts(replicas.records) if changed else before.container_restarts,
        repeated_ends=scope.recovery.persisted_ends(replicas.desired),
        rejections=scope.rejections.persisted(replicas.desired),
        counted_recoveries=scope.recovery.counted_recoveries,
        evaluators=tuple(replicas.evaluator_restarts[index] for index in sorted(replicas.evaluator_restarts)),
        first_pod_time=scope.lifecycle.first_pod_time,
        first_running_time=scope.lifecycle.first_running_time,
        started=scope.lifecycle.started,
    )


def _profile_hash(scope: ReconcileScope) -> str | None:
    """Return the hash of the profile that this attempt's pods get: that of its first pods, as long as it is known."""
    status, latest = scope.job.status, scope.snapshot.profile_hash
    if not scope.spec.profile or latest is None:
        return status.profile_hash
    unknown = not scope.snapshot.used_profile_known and scope.plan.creates_pods
    begins = status.profile_hash is None or scope.replicas.attempt != status.attempt
    return latest if begins or unknown else status.profile_hash


def _completed(replicas: Replicas) -> dict[Role, tuple[int, ...]]:
    indexes: dict[Role, list[int]] = {}
    for replica in sorted(replicas.completed):
        indexes.setdefault(replica.role, []).append(replica.index)
    return {role: tuple(found) for role, found in indexes.items()}


def _hard(status: JobStatus) -> tuple[object, ...]:
    """Return the part of a status whose change cannot wait. A new field belongs here unless it may wait."""
    persisted = status.persisted_state
    return (
        status.observed_generation,
        [(c.type, c.status, c.reason) for c in status.conditions],
        status.strategy,
        status.spec_hash,
        status.profile_hash,
        status.start_time,
        status.completion_time,
        status.attempt,
        status.restarts,
        status.backoff,
        status.last_incident,
        status.last_recovery,
        status.completed,
        {role: counts.restarts for role, counts in status.replica_statuses.items()},
        {r: [(g.attempt, g.indexes) for g in groups] for r, groups in persisted.replicas.items()},
        persisted.incident,
        persisted.container_restarts,
        persisted.repeated_ends,
        persisted.rejections,
        persisted.counted_recoveries,
        persisted.evaluators,
        persisted.first_running_time,
        persisted.started,
    )
