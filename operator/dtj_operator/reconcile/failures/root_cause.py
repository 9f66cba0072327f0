"""A failure as a candidate for the root cause of an incident, and what status keeps of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import Charge
from dtj_operator.api.persisted_state import RootCause
from dtj_operator.api.status import LastIncident
from dtj_operator.reconcile.failures.causes import cause_of, charge_of, rank_of
from dtj_operator.reconcile.failures.failure_rules import matching_rule
from dtj_operator.reconcile.failures.restart_decision import RestartDecision, free_restarts_in_a_row, highest_step
from dtj_operator.reconcile.state.replicas import Replica

if TYPE_CHECKING:
    from datetime import datetime

    from dtj_operator.reconcile.failures.failure import Failure
    from dtj_operator.reconcile.state.replicas import Replica
    from dtj_operator.reconcile.state.scope import ReconcileScope


def root_cause(scope: ReconcileScope, replica: Replica, failure: Failure) -> RootCause:
    """One failure as a candidate for the root cause, small enough for status."""
    pod = scope.pods.get(replica)
    return RootCause(
        role=replica.role,
        index=replica.index,
        node=failure.node or (pod.node if pod else ""),
        exit_code=failure.exit_code,
        cause=cause_of(failure),
        evidence=failure.evidence,
        rank=rank_of(failure),
        charge=str(charge_of(failure)),
        rule=matching_rule(scope.spec.failure_policy.rules, replica.role, failure),
        step=failure.step,
        at=min(failure.at or scope.now, scope.now),
        message=failure.words,
    )


def tally(scope: ReconcileScope, judged: RestartDecision, root: RootCause) -> None:
    """Count one more incident, or one more restart by the kubelet."""
    before, so_far = scope.restarts, free_restarts_in_a_row(scope, root)
    scope.restarts = before.model_copy(
        update={
            "total": before.total + 1,
            "charged": before.charged + judged.charged,
            "by_cause": before.by_cause | {root.cause: before.by_cause.get(root.cause, 0) + 1},
        }
    )
    unproven = root.charge == Charge.FREE_LIMITED
    scope.backoff = scope.backoff.model_copy(
        update={
            "consecutive": scope.backoff.consecutive + judged.grows_backoff,
            "next_attempt_time": None,
            "free": so_far.free + (not judged.charged),
            "free_limited": so_far.unproven + unproven,
            "step": max(scope.backoff.step, highest_step(scope), root.step),
        }
    )


def last_incident(root: RootCause, *, time: datetime, action: str) -> LastIncident:
    """What status keeps of the incident that this root cause began; `time` is when it did."""
    return LastIncident(
        time=time,
        cause=root.cause,
        role=root.role,
        index=root.index,
        node=root.node,
        exit_code=root.exit_code,
        message=root.message,
        action=action,
    )
