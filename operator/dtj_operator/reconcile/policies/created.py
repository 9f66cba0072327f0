"""The first look at a job: it exists, and what its owner should know before it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import ConditionType, EventReason, Reason
from dtj_operator.builders.pod import overridden_fields

if TYPE_CHECKING:
    from dtj_operator.api.job import Job
    from dtj_operator.api.spec import JobSpec
    from dtj_operator.reconcile.state.plan import PlanBuilder
    from dtj_operator.reconcile.state.scope import ReconcileScope


def record_created(scope: ReconcileScope) -> None:
    """Record the job once, and warn about what its spec implies."""
    if scope.conditions.is_true(ConditionType.CREATED):
        return
    scope.lifecycle.choose_strategy()
    scope.lifecycle.accept_spec()
    scope.conditions.set_true(ConditionType.CREATED, Reason.JOB_CREATED, "The job was accepted.")
    chosen = scope.lifecycle.strategy
    strategy = f"; strategy {chosen.type} ({chosen.reason})" if chosen else ""
    scope.plan.note(EventReason.CREATED, f"Accepted: {describe_size(scope.spec)}{strategy}.")
    warn_of_spec(scope.job, scope.plan)


def warn_of_spec(job: Job, plan: PlanBuilder) -> None:
    """Warn of what a spec, new or edited, implies."""
    _warn_of_checkpoints(job, plan)
    lost = overridden_fields(job)
    if lost:
        plan.warn(
            EventReason.TEMPLATE_OVERRIDDEN,
            f"The operator sets these itself, the template's values are not used: "
            f"{', '.join(lost)}. Remove them from the template.",
        )


def warn_of_growth(job: Job, plan: PlanBuilder, pods: int) -> None:
    """Warn if a job of one pod gets peers: it has more to lose. `pods`: how many there were to be before."""
    if pods == 1:
        _warn_of_checkpoints(job, plan)


def describe_size(spec: JobSpec) -> str:
    """Return how many replicas of each role a spec asks for, for people."""
    return ", ".join(f"{replica.replicas} {role}" for role, replica in spec.replica_specs.items())


def _warn_of_checkpoints(job: Job, plan: PlanBuilder) -> None:
    if job.without_checkpoints:
        plan.warn(
            EventReason.NO_CHECKPOINTS,
            "spec.checkpoint.directory is empty: after any restart training begins at step 0. "
            "Set it to a path that every pod sees, or to a gs://, s3:// or hdfs:// URI.",
        )
