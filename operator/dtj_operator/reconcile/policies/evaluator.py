"""Evaluators that fail are started again, and never concern the job.

The same backoff as for training pods, counted for each evaluator alone: no charge, no attempt,
no incident. Because the attempt does not tell the old pod from the new, the UID does.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.api.enums import EventReason, RestartPolicy, Role
from dtj_operator.api.persisted_state import EvaluatorRestart
from dtj_operator.reconcile.failures.causes import cause_of
from dtj_operator.reconcile.failures.failure import find_failure
from dtj_operator.reconcile.failures.restart_backoff import delay

if TYPE_CHECKING:
    from dtj_operator.reconcile.failures.failure import Failure
    from dtj_operator.reconcile.state.replicas import Replica
    from dtj_operator.reconcile.state.scope import Draft


def restart_evaluators(draft: Draft) -> None:
    """Replace the evaluators whose waiting time is over."""
    for replica in list(draft.records):
        if replica.role is not Role.EVALUATOR or replica in draft.completed:
            continue
        failure = find_failure(draft, replica)
        never = draft.restart_policy(replica) is RestartPolicy.NEVER
        if failure is not None:
            if failure.evidence or not never:
                _take_in(draft, replica, failure)
            else:
                _leave(draft, replica, failure)
        _act_when_due(draft, replica)


def _take_in(draft: Draft, replica: Replica, failure: Failure) -> None:
    known, pod = draft.evaluators.get(replica.index), draft.pods.get(replica)
    if known and known.due is not None:
        return
    backoff = draft.spec.failure_policy.backoff
    lived = (failure.at or draft.now) - pod.created_at if pod else timedelta()
    steady = lived >= timedelta(seconds=backoff.reset_after_seconds)
    in_a_row = known.consecutive if known and not steady else 0
    if failure.evidence:
        wait = timedelta(seconds=backoff.initial_seconds) if known and not steady else timedelta()
    else:
        wait = delay(backoff.initial_seconds, backoff.max_seconds, in_a_row)
        in_a_row += 1
    draft.evaluators[replica.index] = EvaluatorRestart(
        index=replica.index, uid=pod.uid if pod else "", consecutive=in_a_row, due=draft.now + wait
    )
    _announce(draft, replica, failure)


def _leave(draft: Draft, replica: Replica, failure: Failure) -> None:
    """Under Never the failed pod stays, which is said once."""
    uid, known = draft.pods[replica].uid, draft.evaluators.get(replica.index)
    if known is None or known.uid != uid:
        draft.evaluators[replica.index] = EvaluatorRestart(index=replica.index, uid=uid, stays=True)
        _announce(draft, replica, failure)


def _announce(draft: Draft, replica: Replica, failure: Failure) -> None:
    code = "" if failure.exit_code is None else f" with exit code {failure.exit_code}"
    draft.warn(
        EventReason.POD_FAILED,
        f"Pod {draft.pod_name(replica)} failed{code} ({cause_of(failure)}); training goes on.",
    )


def _act_when_due(draft: Draft, replica: Replica) -> None:
    known = draft.evaluators.get(replica.index)
    if known is None or known.due is None:
        return
    backoff = draft.spec.failure_policy.backoff
    longest = delay(backoff.initial_seconds, backoff.max_seconds, max(0, known.consecutive - 1))
    due = min(known.due, draft.now + longest)  # the clock may have been set back
    if draft.now < due:
        draft.evaluators[replica.index] = known.model_copy(update={"due": due})
        draft.check_at(due)
        return
    draft.evaluators[replica.index] = known.model_copy(update={"due": None})
    draft.renew(replica)
    draft.count_restart(Role.EVALUATOR)
