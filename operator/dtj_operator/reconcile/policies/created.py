"""The first look at a job: it exists, and what its owner should know before it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import ConditionType, EventReason, Reason
from dtj_operator.builders.pod import overridden
from dtj_operator.reconcile.policies.validation import forget_refusal
from dtj_operator.reconcile.state.plan import Verdict

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.scope import Draft


def record_created(draft: Draft) -> None:
    """Record the job once, and warn about what its spec implies."""
    if draft.holds(ConditionType.CREATED):
        return
    draft.choose_strategy()
    draft.set_true(ConditionType.CREATED, Reason.JOB_CREATED, "The job was accepted.")
    draft.note(EventReason.CREATED, f"Accepted: {_shape(draft)}.")
    draft.spec_hash = draft.spec_hash_now
    _warn_of_checkpoints(draft)
    _warn_of_templates(draft)


def accept_new_spec(draft: Draft) -> None:
    """Take over a spec that could be edited meanwhile, and say anew what its owner should know."""
    now, before = draft.spec_hash_now, draft.spec_hash
    draft.spec_hash = now
    if before and now != before:
        forget_refusal(draft)
        _warn_of_checkpoints(draft)
        _warn_of_templates(draft)
    else:
        warn_of_growth(draft, sum(counts.desired for counts in draft.before.replica_statuses.values()))


def warn_of_growth(draft: Draft, pods: int) -> None:
    """A job of one pod that gets peers has more to lose. `pods`: how many there were to be before."""
    if pods == 1:
        _warn_of_checkpoints(draft)


def _warn_of_checkpoints(draft: Draft) -> None:
    if draft.job.without_checkpoints:
        draft.warn(
            EventReason.NO_CHECKPOINTS,
            "spec.checkpoint.directory is empty: after any restart training begins at step 0. "
            "Set it to a path that every pod sees, or to a gs://, s3:// or hdfs:// URI.",
        )


def _warn_of_templates(draft: Draft) -> None:
    lost = overridden(draft.job)
    if lost:
        draft.warn(
            EventReason.TEMPLATE_OVERRIDDEN,
            f"The operator sets these itself, the template's values are not used: "
            f"{', '.join(lost)}. Remove them from the template.",
        )


def reject_unreadable_spec(draft: Draft) -> Verdict | None:
    """A spec that an older schema let through: say so and touch nothing."""
    if not draft.job.problem:
        return None
    message = f"{draft.job.problem}; correct the spec."
    if draft.set_true(ConditionType.INVALID, Reason.INVALID, message):
        draft.warn(EventReason.INVALID, message)
    draft.message = message
    return Verdict.SETTLED


def _shape(draft: Draft) -> str:
    roles = ", ".join(f"{replica.replicas} {role}" for role, replica in draft.spec.replica_specs.items())
    chosen = draft.strategy
    return f"{roles}; strategy {chosen.type} ({chosen.reason})" if chosen else roles
