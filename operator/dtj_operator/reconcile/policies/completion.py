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
    from dtj_operator.reconcile.state.scope import Draft


def apply_success_policy(draft: Draft) -> Verdict | None:
    """Whether all that has to be done is done."""
    first = success_replica(draft)
    if first is None:
        return None
    serving_workers = draft.strategy is not None and draft.strategy.type is StrategyType.PARAMETER_SERVER
    if draft.spec.success_policy.type is SuccessType.ALL_WORKERS and not serving_workers:
        needed = [replica for replica in draft.desired if replica.role in {Role.CHIEF, Role.WORKER}]
        reason, who = Reason.ALL_WORKERS_SUCCEEDED, "all workers"
    else:
        needed = [first]
        reason = Reason.CHIEF_SUCCEEDED if first.role is Role.CHIEF else Reason.WORKER_SUCCEEDED
        who = draft.pod_name(first)
    if not all(replica in draft.completed for replica in needed):
        return None
    finish_job(draft, ConditionType.SUCCEEDED, reason, f"The job succeeded: {who} ended with code 0.")
    return Verdict.SETTLED


def fail_job(draft: Draft, reason: Reason, message: str) -> Verdict:
    """The job has failed, for ever."""
    finish_job(draft, ConditionType.FAILED, reason, message)
    return Verdict.SETTLED


def finish_job(draft: Draft, kind: ConditionType, reason: Reason, message: str) -> None:
    """Set exactly one terminal condition; what was under way is over."""
    draft.set_true(kind, reason, message)
    draft.set_false(ConditionType.RUNNING, Reason.FINISHED, "The job is finished.")
    if draft.condition(ConditionType.RESTARTING) is None or draft.holds(ConditionType.RESTARTING):
        draft.set_false(ConditionType.RESTARTING, Reason.FINISHED, "The job is finished.")
    if draft.holds(ConditionType.SUSPENDED):
        draft.set_false(ConditionType.SUSPENDED, Reason.FINISHED, "The job is finished.")
    draft.completion_time = draft.completion_time or whole_second(draft.now)
    draft.incident = None
    draft.expect_attempt(None)
    draft.message = message
    first = success_replica(draft)
    if first is not None:
        draft.progress = final_progress(draft, first)
    if kind is ConditionType.SUCCEEDED:
        draft.note(EventReason.SUCCEEDED, message)
    else:
        draft.warn(EventReason.FAILED, message)


def final_progress(draft: Draft, replica: Replica) -> Progress | None:
    """The last values from the termination message of the pod that ended the job."""
    pod = draft.pods.get(replica)
    end = ended(pod, draft.main(replica)) if pod else None
    told = parse_termination_message(end.message) if end else {}
    known = draft.progress or Progress()
    values = final_values(told)
    if not values:
        return draft.progress
    return known.model_copy(update=values | {"updated_at": (end.finished_at if end else None) or draft.now})


def stop_if_finished(draft: Draft) -> Verdict | None:
    """Succeeded and Failed are for ever: nothing but `clean_up` concerns the job any more."""
    return Verdict.SETTLED if draft.finished else None
