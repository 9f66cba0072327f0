"""When a job has run out of time.

`activeDeadlineSeconds` counts from startTime, which a resume sets again; `startDeadlineSeconds`
counts from the first pod to the first Running, once. Time spent suspended counts for neither.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.api.enums import Reason
from dtj_operator.reconcile.policies.completion import fail_job

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.plan import Verdict
    from dtj_operator.reconcile.state.scope import ReconcileScope


def enforce_active_deadline(scope: ReconcileScope) -> Verdict | None:
    """Let the job fail when its running time is over."""
    seconds, start = scope.spec.active_deadline_seconds, scope.lifecycle.start_time
    if seconds is None or start is None:
        return None
    ends = start + timedelta(seconds=seconds)
    if scope.now < ends:
        scope.plan.requeue_at(ends)
        return None
    return fail_job(
        scope,
        Reason.DEADLINE_EXCEEDED,
        f"The job ran for {seconds} s without finishing (activeDeadlineSeconds).",
    )


def enforce_start_deadline(scope: ReconcileScope) -> Verdict | None:
    """Let the job fail when it should have been Running by now."""
    seconds, first_pod = scope.spec.start_deadline_seconds, scope.lifecycle.first_pod_time
    if seconds is None or first_pod is None or scope.lifecycle.first_running_time:
        return None
    ends = first_pod + timedelta(seconds=seconds)
    if scope.now < ends:
        scope.plan.requeue_at(ends)
        return None
    if scope.pods.all_up():
        # Ready while no operator looked, or together with this look: whether it was in time, nobody knows.
        return None
    last_message = scope.job.status.message
    return fail_job(
        scope,
        Reason.START_DEADLINE_EXCEEDED,
        f"The job was not Running {seconds} s after its first pod was created (startDeadlineSeconds): {last_message}",
    )
