"""What to do about one job, given everything known about it.

The list below is the rule book: the policies are asked in this order, each looks at one thing,
and the first that settles the pass ends it. Then what is over is cleaned up and what happened
is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.reconcile.policies.cleanup import clean_up
from dtj_operator.reconcile.policies.completion import finished, succeeded
from dtj_operator.reconcile.policies.container_restarts import restarted_in_place
from dtj_operator.reconcile.policies.created import accepted, unreadable
from dtj_operator.reconcile.policies.deadlines import past_deadline, past_start_deadline
from dtj_operator.reconcile.policies.evaluator import evaluators
from dtj_operator.reconcile.policies.failure_policy import forgiven, recovering
from dtj_operator.reconcile.policies.pod_tracking import observed, reported
from dtj_operator.reconcile.policies.replica_pods import membership
from dtj_operator.reconcile.policies.running import set_running
from dtj_operator.reconcile.policies.scaling import scaled
from dtj_operator.reconcile.policies.suspend import started, suspended
from dtj_operator.reconcile.policies.validation import validated
from dtj_operator.reconcile.state.plan import Plan, Verdict
from dtj_operator.reconcile.state.scope import Draft
from dtj_operator.reconcile.status_builder import plan_of
from dtj_operator.reconcile.status_summary import report

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from dtj_operator.api.job import Job
    from dtj_operator.reconcile.state.snapshot import Snapshot

    Policy = Callable[[Draft], Verdict | None]

POLICIES: tuple[Policy, ...] = (
    unreadable,
    accepted,
    reported,
    observed,
    finished,
    succeeded,
    suspended,
    started,
    validated,
    past_deadline,
    past_start_deadline,
    forgiven,
    restarted_in_place,
    recovering,
    evaluators,
    scaled,
    membership,
    set_running,
)


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """What to do about one job, given everything known about it. Pure.

    `now` has a time zone. Never raises for a job that the API server has accepted. A plan whose
    status is the job's own (the same object) and that has no actions means: nothing to do.
    """
    if hands_off(snapshot.job):
        return Plan(status=None)
    draft = Draft(snapshot, now)
    for policy in POLICIES:
        if policy(draft) is Verdict.SETTLED:
            break
    clean_up(draft)
    report(draft)
    return plan_of(draft)


def hands_off(job: Job) -> bool:
    """No pods, no status, no events: somebody else manages the job, it is being deleted (the
    garbage collector follows the owner references), or its status cannot be understood.
    """
    return not job.managed_here or job.deleted_at is not None or not job.status_readable
