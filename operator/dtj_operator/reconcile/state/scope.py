"""The reconcile scope: what the policies of one pass read and change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.reconcile.state.conditions import Conditions
from dtj_operator.reconcile.state.job_pods import JobPods
from dtj_operator.reconcile.state.lifecycle import Lifecycle
from dtj_operator.reconcile.state.plan import PlanBuilder
from dtj_operator.reconcile.state.recovery import Recovery
from dtj_operator.reconcile.state.rejections import Rejections
from dtj_operator.reconcile.state.replicas import Replicas

if TYPE_CHECKING:
    from datetime import datetime

    from dtj_operator.api.status import Progress
    from dtj_operator.reconcile.state.snapshot import Pod, Snapshot


class ReconcileScope:
    """The parts of one pass over one job. Each changes through its own verbs; none outlives the pass.

    Only policies and the steps of a policy take the whole scope; `failures` takes the parts that it needs.
    """

    __slots__ = (
        "conditions",
        "job",
        "lifecycle",
        "matched_failures",
        "now",
        "plan",
        "pods",
        "progress",
        "recovery",
        "rejections",
        "replicas",
        "snapshot",
        "spec",
    )

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        """Start where status says that the last pass ended."""
        job = snapshot.job
        self.snapshot, self.job, self.spec, self.now = snapshot, job, job.spec, now
        self.plan = PlanBuilder()
        self.replicas = Replicas(job)
        self.pods = JobPods(snapshot, self.replicas, now, self.plan.requeue_at)
        self.recovery = Recovery(job.status, now)
        self.rejections = Rejections(job.status.persisted_state, snapshot.node_count)
        self.lifecycle = Lifecycle(job)
        self.conditions = Conditions(job.status.conditions, now)
        self.matched_failures = 0
        """Failures whose messages were compared with the patterns of the failure rules."""
        self.progress: Progress | None = job.status.progress

    @property
    def reported_step(self) -> int:
        """The highest training step that was ever reported."""
        return (self.progress.step or 0) if self.progress else 0

    def delete_pod(self, pod: Pod) -> bool:
        """Delete a pod of ours. Returns whether its name is free right after."""
        return self.plan.delete_pod(pod, node_lost=self.pods.node_lost(pod))
