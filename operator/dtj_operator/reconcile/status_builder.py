"""The way out of a pass: from the draft to the plan.

A status that equals the job's own is returned as that very object, so that nobody compares it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.persisted_state import Ledger
from dtj_operator.api.status import JobStatus
from dtj_operator.builders.metadata import worker_selector
from dtj_operator.reconcile.state.plan import Plan, Urgency
from dtj_operator.reconcile.state.replicas import write_indexes, write_records

if TYPE_CHECKING:
    from dtj_operator.api.enums import Role
    from dtj_operator.reconcile.state.scope import Draft


def plan_of(draft: Draft) -> Plan:
    """The status to persist, then the actions and events in their order."""
    status = _status_of(draft)
    before = draft.before
    if status == before:
        return Plan(before, tuple(draft.actions), tuple(draft.events), Urgency.SOON, draft.next_check)
    urgency = Urgency.SOON if _hard(status) == _hard(before) else Urgency.NOW
    return Plan(status, tuple(draft.actions), tuple(draft.events), urgency, draft.next_check)


def _status_of(draft: Draft) -> JobStatus:
    slots = draft.before.ledger.slots
    if draft.records != draft.records_before:
        slots = write_records(draft.records)
    completed: dict[Role, list[int]] = {}
    for replica in sorted(draft.completed):
        completed.setdefault(replica.role, []).append(replica.index)
    container_restarts: dict[Role, dict[int, int]] = {}
    for replica, count in sorted(draft.container_restarts.items()):
        container_restarts.setdefault(replica.role, {})[replica.index] = count
    incident = draft.incident
    if incident is not None:
        incident = incident.model_copy(update={"failed": write_indexes(draft.failed)})
    ledger = Ledger.model_construct(
        slots=slots,
        incident=incident,
        in_place=container_restarts,
        evaluators=tuple(draft.evaluators[i] for i in sorted(draft.evaluators)),
        first_pod_time=draft.first_pod_time,
        first_running_time=draft.first_running_time,
        started=draft.started,
    )
    return JobStatus.model_construct(
        observed_generation=draft.job.generation,
        phase=draft.phase,
        message=draft.message,
        workers=draft.workers,
        conditions=draft.conditions(),
        strategy=draft.strategy,
        spec_hash=draft.spec_hash,
        start_time=draft.start_time,
        completion_time=draft.completion_time,
        replica_statuses=draft.replica_statuses,
        attempt=draft.attempt,
        restarts=draft.restarts,
        backoff=draft.backoff,
        last_incident=draft.last_incident,
        completed={role: tuple(indexes) for role, indexes in completed.items()},
        selector=worker_selector(draft.job),
        progress=draft.progress,
        ledger=ledger,
    )


def _hard(status: JobStatus) -> tuple[object, ...]:
    """The part of a status whose change cannot wait: all but counts, words and progress."""
    ledger = status.ledger
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
        {r: [(g.attempt, g.indexes) for g in groups] for r, groups in ledger.slots.items()},
        ledger.incident,
        ledger.in_place,
        ledger.evaluators,
        ledger.first_running_time,
        ledger.started,
    )
