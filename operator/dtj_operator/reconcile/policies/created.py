"""The first look at a job: it exists, and what its owner should know before it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import ConditionType, EventReason, Reason
from dtj_operator.builders.pod import overridden_fields
from dtj_operator.reconcile.policies.validation import forget_refusal
from dtj_operator.reconcile.state.plan import Verdict

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.scope import ReconcileScope


def record_created(scope: ReconcileScope) -> None:
    """Record the job once, and warn about what its spec implies."""
    if scope.conditions.is_true(ConditionType.CREATED):
        return
    scope.choose_strategy()
    scope.conditions.set_true(ConditionType.CREATED, Reason.JOB_CREATED, "The job was accepted.")
    scope.plan.note(EventReason.CREATED, f"Accepted: {_shape(scope)}.")
    scope.spec_hash = scope.spec_hash_now
    _warn_of_checkpoints(scope)
    _warn_of_templates(scope)


def accept_new_spec(scope: ReconcileScope) -> None:
    """Take over a spec that could be edited meanwhile, and say anew what its owner should know."""
    now, before = scope.spec_hash_now, scope.spec_hash
    scope.spec_hash = now
    if before and now != before:
        forget_refusal(scope)
        _warn_of_checkpoints(scope)
        _warn_of_templates(scope)
    else:
        warn_of_growth(scope, sum(counts.desired for counts in scope.before.replica_statuses.values()))


def warn_of_growth(scope: ReconcileScope, pods: int) -> None:
    """A job of one pod that gets peers has more to lose. `pods`: how many there were to be before."""
    if pods == 1:
        _warn_of_checkpoints(scope)


def _warn_of_checkpoints(scope: ReconcileScope) -> None:
    if scope.job.without_checkpoints:
        scope.plan.warn(
            EventReason.NO_CHECKPOINTS,
            "spec.checkpoint.directory is empty: after any restart training begins at step 0. "
            "Set it to a path that every pod sees, or to a gs://, s3:// or hdfs:// URI.",
        )


def _warn_of_templates(scope: ReconcileScope) -> None:
    lost = overridden_fields(scope.job)
    if lost:
        scope.plan.warn(
            EventReason.TEMPLATE_OVERRIDDEN,
            f"The operator sets these itself, the template's values are not used: "
            f"{', '.join(lost)}. Remove them from the template.",
        )


def reject_unreadable_spec(scope: ReconcileScope) -> Verdict | None:
    """A spec that an older schema let through: say so and touch nothing."""
    if not scope.job.problem:
        return None
    message = f"{scope.job.problem}; correct the spec."
    if scope.conditions.set_true(ConditionType.INVALID, Reason.INVALID, message):
        scope.plan.warn(EventReason.INVALID, message)
    scope.message = message
    return Verdict.SETTLED


def _shape(scope: ReconcileScope) -> str:
    roles = ", ".join(f"{replica.replicas} {role}" for role, replica in scope.spec.replica_specs.items())
    chosen = scope.strategy
    return f"{roles}; strategy {chosen.type} ({chosen.reason})" if chosen else roles
