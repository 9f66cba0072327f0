"""When a job has succeeded, and how any job ends.

The success pod ends the job whatever others do. If success and failure are seen in the same
pass, success wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import (
    ConditionType,
    EventReason,
    Reason,
    Role,
    StrategyType,
    SuccessType,
)
from dtj_operator.api.status import Progress
from dtj_operator.api.wire_model import whole_second
from dtj_operator.reconcile.failures.termination import ended
from dtj_operator.reconcile.state.plan import Verdict
from dtj_operator.reconcile.state.replicas import Replica, success_replica
from dtj_operator.reconcile.state.trainer_messages import final_values, parse_termination_message

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.replicas import Replica
    from dtj_operator.reconcile.state.scope import ReconcileScope


def apply_success_policy(scope: ReconcileScope) -> Verdict | None:
    """Whether all that has to be done is done."""
    first = success_replica(scope)
    if first is None:
        return None
    serving_workers = scope.strategy is not None and scope.strategy.type is StrategyType.PARAMETER_SERVER
    if scope.spec.success_policy.type is SuccessType.ALL_WORKERS and not serving_workers:
        needed = [replica for replica in scope.desired if replica.role in {Role.CHIEF, Role.WORKER}]
        reason, who = Reason.ALL_WORKERS_SUCCEEDED, "all workers"
    else:
        needed = [first]
        reason = Reason.CHIEF_SUCCEEDED if first.role is Role.CHIEF else Reason.WORKER_SUCCEEDED
        who = scope.pod_name(first)
    if not all(replica in scope.completed for replica in needed):
        return None
    finish_job(scope, ConditionType.SUCCEEDED, reason, f"The job succeeded: {who} ended with code 0.")
    return Verdict.SETTLED


def fail_job(scope: ReconcileScope, reason: Reason, message: str) -> Verdict:
    """The job has failed, for ever."""
    finish_job(scope, ConditionType.FAILED, reason, message)
    return Verdict.SETTLED


def finish_job(scope: ReconcileScope, kind: ConditionType, reason: Reason, message: str) -> None:
    """Set exactly one terminal condition; what was under way is over."""
    scope.conditions.set_true(kind, reason, message)
    scope.conditions.halt(Reason.FINISHED, "The job is finished.")
    if scope.conditions.get(ConditionType.RESTARTING) is None:
        scope.conditions.set_false(ConditionType.RESTARTING, Reason.FINISHED, "The job is finished.")
    if scope.conditions.is_true(ConditionType.SUSPENDED):
        scope.conditions.set_false(ConditionType.SUSPENDED, Reason.FINISHED, "The job is finished.")
    scope.completion_time = scope.completion_time or whole_second(scope.now)
    scope.incident = None
    scope.expect_attempt(None)
    scope.message = message
    first = success_replica(scope)
    if first is not None:
        scope.progress = final_progress(scope, first)
    if kind is ConditionType.SUCCEEDED:
        scope.plan.note(EventReason.SUCCEEDED, message)
    else:
        scope.plan.warn(EventReason.FAILED, message)


def final_progress(scope: ReconcileScope, replica: Replica) -> Progress | None:
    """The last values from the termination message of the pod that ended the job."""
    pod = scope.pods.get(replica)
    end = ended(pod, scope.main(replica)) if pod else None
    told = parse_termination_message(end.message) if end else {}
    known = scope.progress or Progress()
    values = final_values(told)
    if not values:
        return scope.progress
    return known.model_copy(update=values | {"updated_at": (end.finished_at if end else None) or scope.now})


def stop_if_finished(scope: ReconcileScope) -> Verdict | None:
    """Succeeded and Failed are for ever: nothing but `clean_up` concerns the job any more."""
    return Verdict.SETTLED if scope.conditions.finished else None
