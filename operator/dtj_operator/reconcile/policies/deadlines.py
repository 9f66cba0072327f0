"""When a job has run out of time.

`activeDeadlineSeconds` counts from startTime, which a resume sets anew; `startDeadlineSeconds`
counts from the first pod to the first Running, once. Time spent suspended counts for neither.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.api.enums import Reason
from dtj_operator.reconcile.policies.completion import fail_job
from dtj_operator.reconcile.policies.running import all_up

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.plan import Verdict
    from dtj_operator.reconcile.state.scope import ReconcileScope


def enforce_active_deadline(scope: ReconcileScope) -> Verdict | None:
    """Whether the running time is over."""
    seconds = scope.spec.active_deadline_seconds
    if seconds is None or scope.start_time is None:
        return None
    ends = scope.start_time + timedelta(seconds=seconds)
    if scope.now < ends:
        scope.plan.requeue_at(ends)
        return None
    return fail_job(
        scope,
        Reason.DEADLINE_EXCEEDED,
        f"The job ran for {seconds} s without finishing (activeDeadlineSeconds).",
    )


def enforce_start_deadline(scope: ReconcileScope) -> Verdict | None:
    """Whether the job should have been Running by now."""
    seconds = scope.spec.start_deadline_seconds
    if seconds is None or scope.first_pod_time is None or scope.first_running_time:
        return None
    ends = scope.first_pod_time + timedelta(seconds=seconds)
    if scope.now < ends:
        scope.plan.requeue_at(ends)
        return None
    if all_up(scope):
        # Ready while no operator looked, or together with this look: whether it was in time, nobody knows.
        return None
    return fail_job(
        scope,
        Reason.START_DEADLINE_EXCEEDED,
        f"The job was not Running {seconds} s after its first pod was created (startDeadlineSeconds): {scope.message}",
    )
