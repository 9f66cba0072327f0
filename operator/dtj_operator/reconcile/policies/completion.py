"""When a job has succeeded, and how any job finishes.

The success pod ends the job whatever others do. If success and failure are seen in the same
pass, success wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import ConditionType, EventReason, Reason, Role, SuccessType
from dtj_operator.reconcile.failures.termination import find_termination
from dtj_operator.reconcile.state.plan import Verdict
from dtj_operator.reconcile.state.trainer_messages import parse_termination_message, read_final_progress

if TYPE_CHECKING:
    from dtj_operator.api.status import Progress
    from dtj_operator.reconcile.state.scope import ReconcileScope


def stop_if_finished(scope: ReconcileScope) -> Verdict | None:
    """Leave a job alone that has succeeded or failed, which is permanent: only `clean_up` is still to come."""
    return Verdict.SETTLED if scope.conditions.finished else None


def apply_success_policy(scope: ReconcileScope) -> Verdict | None:
    """Finish the job when all that has to be done is done."""
    replicas = scope.replicas
    first = replicas.success_replica
    if first is None:
        return None
    if scope.spec.success_policy.type is SuccessType.ALL_WORKERS and not scope.lifecycle.workers_serve:
        needed = [replica for replica in replicas.desired if replica.role in {Role.CHIEF, Role.WORKER}]
        reason, who = Reason.ALL_WORKERS_SUCCEEDED, "all workers"
    else:
        needed = [first]
        reason = Reason.CHIEF_SUCCEEDED if first.role is Role.CHIEF else Reason.WORKER_SUCCEEDED
        who = replicas.pod_name(first)
    if not all(replica in replicas.completed for replica in needed):
        return None
    message = f"The job succeeded: {who} ended with code 0."
    scope.plan.note(EventReason.SUCCEEDED, message)
    return finish_job(scope, ConditionType.SUCCEEDED, reason, message)


def fail_job(scope: ReconcileScope, reason: Reason, message: str) -> Verdict:
    """Let the job fail, which is permanent."""
    scope.plan.warn(EventReason.FAILED, message)
    return finish_job(scope, ConditionType.FAILED, reason, message)


def finish_job(scope: ReconcileScope, kind: ConditionType, reason: Reason, message: str) -> Verdict:
    """Set the one terminal condition, and end what was under way."""
    scope.conditions.finish(kind, reason, message)
    scope.lifecycle.finish(scope.now)
    scope.recovery.cancel()
    scope.progress = _final_progress(scope)
    return Verdict.SETTLED


def _final_progress(scope: ReconcileScope) -> Progress | None:
    """Return the values of the success pod's termination message.

    What only an earlier answer said stays where that was of the same step; beside a later one it would be wrong.
    """
    replica = scope.replicas.success_replica
    pod = scope.pods.owned.get(replica) if replica else None
    end = find_termination(pod, scope.pods.main_container(replica)) if replica and pod else None
    known = scope.progress
    final = read_final_progress(parse_termination_message(end.message), end.finished_at or scope.now) if end else None
    if final is None or known is None or known.step != final.step:
        return final or known
    return known.model_copy(update={name: getattr(final, name) for name in final.model_fields_set})
