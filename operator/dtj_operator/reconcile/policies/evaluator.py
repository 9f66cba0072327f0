"""Evaluators that fail are started again, and never concern the job.

The same backoff as for training pods, counted for each evaluator alone: no charge, no attempt,
no incident. Because the attempt does not tell the old pod from the new, the UID does.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.api.enums import RestartPolicy, Role
from dtj_operator.api.persisted_state import EvaluatorRestart
from dtj_operator.reconcile.failures.causes import cause_of
from dtj_operator.reconcile.failures.failure import find_failure
from dtj_operator.reconcile.failures.restart_backoff import exponential_delay, repeated_delay
from dtj_operator.reconcile.policies.failure_policy import count_rejection

if TYPE_CHECKING:
    from dtj_operator.reconcile.failures.failure import Failure
    from dtj_operator.reconcile.state.replicas import Replica
    from dtj_operator.reconcile.state.scope import ReconcileScope


def restart_evaluators(scope: ReconcileScope) -> None:
    """Replace the evaluators whose waiting time is over."""
    replicas = scope.replicas
    for replica in list(replicas.records):
        if replica.role is not Role.EVALUATOR or replica in replicas.completed:
            continue
        if scope.pods.is_up(replica):
            scope.rejections.forget([replica])
        failure = find_failure(replica, scope.pods, replicas)
        if failure is not None:
            if failure.evidence or replicas.restart_policy(replica) is not RestartPolicy.NEVER:
                _order_restart(scope, replica, failure)
            else:
                _leave(scope, replica, failure)
        _restart_when_due(scope, replica)


def _order_restart(scope: ReconcileScope, replica: Replica, failure: Failure) -> None:
    known, pod = scope.replicas.evaluator_restarts.get(replica.index), scope.pods.owned.get(replica)
    if known and known.due is not None:
        return
    backoff = scope.spec.failure_policy.backoff
    lived = (failure.at or scope.now) - pod.created_at if pod else timedelta()
    steady = lived >= timedelta(seconds=backoff.reset_after_seconds)
    in_a_row = known.consecutive if known and not steady else 0
    if failure.evidence:
        delay = timedelta(seconds=backoff.initial_seconds) if known and not steady else timedelta()
    else:
        delay = exponential_delay(backoff, in_a_row)
        in_a_row += 1
    repeated = (known.repeated or 0) if known and lived < timedelta(seconds=backoff.max_seconds) else 0
    delay = max(delay, repeated_delay(backoff, repeated))
    scope.replicas.keep_evaluator_restart(
        EvaluatorRestart(
            index=replica.index,
            uid=pod.uid if pod else "",
            consecutive=in_a_row,
            repeated=repeated + 1,
            due=scope.now + delay,
        )
    )
    _announce(scope, replica, failure)
    count_rejection(scope, replica, failure)


def _leave(scope: ReconcileScope, replica: Replica, failure: Failure) -> None:
    """Leave a pod that failed under Never, and report it once."""
    uid, known = scope.pods.owned[replica].uid, scope.replicas.evaluator_restarts.get(replica.index)
    if known is None or known.uid != uid:
        scope.replicas.keep_evaluator_restart(EvaluatorRestart(index=replica.index, uid=uid, stays=True))
        _announce(scope, replica, failure)


def _announce(scope: ReconcileScope, replica: Replica, failure: Failure) -> None:
    code = "" if failure.exit_code is None else f" with exit code {failure.exit_code}"
    cause = cause_of(failure)
    message = f"Pod {scope.replicas.pod_name(replica)} failed{code} ({cause}); training goes on."
    scope.plan.report_failed_pod(replica.role, cause, message)


def _restart_when_due(scope: ReconcileScope, replica: Replica) -> None:
    known = scope.replicas.evaluator_restarts.get(replica.index)
    if known is None or known.due is None:
        return
    backoff = scope.spec.failure_policy.backoff
    longest = max(
        exponential_delay(backoff, max(0, known.consecutive - 1)),
        repeated_delay(backoff, max(0, (known.repeated or 0) - 1)),
    )
    due = min(known.due, scope.now + longest)  # the clock may have been set back
    if scope.now < due:
        scope.replicas.keep_evaluator_restart(known.model_copy(update={"due": due}))
        scope.plan.requeue_at(due)
        return
    scope.replicas.keep_evaluator_restart(known.model_copy(update={"due": None}))
    scope.replicas.renew([replica])
    scope.recovery.count_replaced(Role.EVALUATOR)
