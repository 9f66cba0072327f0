"""A failure as a candidate for the root cause of an incident, and its description in status and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.persisted_state import RootCause
from dtj_operator.api.status import LastIncident
from dtj_operator.reconcile.failures.causes import cause_of, charge_of, rank_of
from dtj_operator.reconcile.state.replicas import Replica

if TYPE_CHECKING:
    from datetime import datetime

    from dtj_operator.reconcile.failures.failure import Failure
    from dtj_operator.reconcile.state.replicas import Replicas


def root_cause(replica: Replica, failure: Failure, now: datetime, rule: int | None = None) -> RootCause:
    """Return a failure as a candidate for the root cause, small enough for status. `rule`: the one that matches it."""
    return RootCause(
        role=replica.role,
        index=replica.index,
        node=failure.node,
        exit_code=failure.exit_code,
        cause=cause_of(failure),
        evidence=failure.evidence,
        rank=rank_of(failure),
        charge=str(charge_of(failure)),
        rule=rule,
        step=failure.step,
        at=min(failure.at or now, now),
        message=failure.words,
    )


def describe_root_cause(root: RootCause, replicas: Replicas) -> str:
    """Return `train-worker-1 ended with exit code 1 (UserError): the last message`."""
    how = "was lost" if root.exit_code is None else f"ended with exit code {root.exit_code}"
    words = f": {root.message}" if root.message else ""
    return f"{replicas.pod_name(Replica(root.role, root.index))} {how} ({root.cause}){words}"


def last_incident(root: RootCause, *, time: datetime, action: str) -> LastIncident:
    """Return what status keeps of the incident that this root cause began; `time` is when it did."""
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
