"""The decision about one job, given everything known about it.

The list below is the rule book: the policies are asked in this order, each looks at one thing,
and the first that settles the pass ends it. Then what a finished or suspended job must not keep is
deleted, and the status is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.reconcile.policies.cleanup import clean_up
from dtj_operator.reconcile.policies.completion import apply_success_policy, stop_if_finished
from dtj_operator.reconcile.policies.container_restarts import count_container_restarts
from dtj_operator.reconcile.policies.created import record_created
from dtj_operator.reconcile.policies.deadlines import enforce_active_deadline, enforce_start_deadline
from dtj_operator.reconcile.policies.evaluator import restart_evaluators
from dtj_operator.reconcile.policies.failure_policy import apply_failure_policy, reset_backoff
from dtj_operator.reconcile.policies.in_place_recovery import count_recoveries_in_place
from dtj_operator.reconcile.policies.pod_tracking import track_pods
from dtj_operator.reconcile.policies.replica_pods import reconcile_pods
from dtj_operator.reconcile.policies.running import set_running
from dtj_operator.reconcile.policies.scaling import scale
from dtj_operator.reconcile.policies.suspend import start, suspend
from dtj_operator.reconcile.policies.validation import reject_unreadable_spec, validate
from dtj_operator.reconcile.state.plan import Plan, Verdict
from dtj_operator.reconcile.state.scope import ReconcileScope
from dtj_operator.reconcile.status_builder import build_status, status_write

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from dtj_operator.reconcile.state.snapshot import Snapshot

    Policy = Callable[[ReconcileScope], Verdict | None]

POLICIES: tuple[Policy, ...] = (
    reject_unreadable_spec,
    record_created,
    track_pods,
    stop_if_finished,
    count_recoveries_in_place,
    apply_success_policy,
    suspend,
    start,
    validate,
    enforce_active_deadline,
    enforce_start_deadline,
    reset_backoff,
    count_container_restarts,
    apply_failure_policy,
    restart_evaluators,
    scale,
    reconcile_pods,
    set_running,
)


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """Return what to do about one job, given everything known about it. Pure.

    `now` has a time zone. Never raises for a job that the API server has accepted. A plan whose
    status is the job's own (the same object) and that has no actions means: nothing to do.
    A job that another controller manages, that is being deleted (the garbage collector follows the
    owner references), or whose status a later version wrote, is not touched.
    """
    job = snapshot.job
    if job.managed_by_external_controller or job.deleted_at is not None or job.later_status:
        return Plan.nothing()
    scope = ReconcileScope(snapshot, now)
    for policy in POLICIES:
        if policy(scope) is Verdict.SETTLED:
            break
    clean_up(scope)
    status = build_status(scope)
    return scope.plan.build(status, status_write(status, job.status))
