"""The plan in the making: one pass over one job.

Policies read the snapshot through it and write what comes next into it. It lives for one call of
`decide` and never leaves it; `outcome.plan_of` is the only way out.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.api.enums import (
    RestartPolicy,
    Role,
    StrategyType,
)
from dtj_operator.api.job import spec_hash
from dtj_operator.api.status import ReplicaStatus, StrategyChoice
from dtj_operator.builders.main_container import main_container_name
from dtj_operator.builders.metadata import pod_name
from dtj_operator.builders.strategy_choice import choose_strategy
from dtj_operator.reconcile.state.conditions import Conditions
from dtj_operator.reconcile.state.plan import PlanBuilder
from dtj_operator.reconcile.state.replicas import Replica, ReplicaRecord, desired_replicas, read_indexes, read_records

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from dtj_operator.api.persisted_state import OpenIncident
    from dtj_operator.reconcile.state.snapshot import Pod, Snapshot

NODE_NOT_READY = "NodeNotReady"
"""What the node controller writes as the reason of Ready=False on the pods of a node that is silent."""
ROLES = frozenset(Role)


class ReconcileScope:
    """What is known, what was, and what comes next."""

    __slots__ = (
        "_spec_hash_now",
        "attempt",
        "backoff",
        "before",
        "completed",
        "completion_time",
        "conditions",
        "container_restarts",
        "desired",
        "evaluators",
        "failed",
        "first_pod_time",
        "first_running_time",
        "foreign",
        "incident",
        "job",
        "last_incident",
        "main_names",
        "message",
        "misnamed",
        "name",
        "now",
        "phase",
        "plan",
        "pods",
        "progress",
        "records",
        "records_before",
        "replica_statuses",
        "restarts",
        "role_restarts",
        "snapshot",
        "spec",
        "spec_hash",
        "start_time",
        "started",
        "strategy",
        "workers",
    )

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        """Sort the pods and take up the status where the last pass left it."""
        job = snapshot.job
        before = job.status
        persisted = before.persisted_state
        self.snapshot, self.job, self.spec, self.now = snapshot, job, job.spec, now
        self.name, self.before = job.name, before
        self.desired = desired_replicas(job.spec)
        self.main_names = {role: main_container_name(job, role) for role in job.spec.replica_specs}

        self.pods: dict[Replica, Pod] = {}
        """Pods of this job in the name of their replica."""
        self.misnamed: list[Pod] = []
        """Pods of this job whose name is not their replica's."""
        self.foreign: dict[str, Pod] = {}
        """Pods with our labels that belong to somebody else, by name."""
        self._sort(snapshot.pods)

        self.attempt = before.attempt
        self.records_before = read_records(persisted.replicas)
        self.records = dict(self.records_before)
        self.incident: OpenIncident | None = persisted.incident
        self.failed = read_indexes(persisted.incident.failed) if persisted.incident else set()
        """What `incident.failed` will say. A set as long as the pass takes, as thousands may fall at once."""
        self.last_incident = before.last_incident
        self.restarts, self.backoff = before.restarts, before.backoff
        self.completed = {Replica(role, index) for role, indexes in before.completed.items() for index in indexes}
        self.container_restarts = {
            Replica(role, index): count
            for role, counts in persisted.container_restarts.items()
            for index, count in counts.items()
        }
        self.evaluators = {one.index: one for one in persisted.evaluators}
        self.role_restarts = {r: s.restarts for r, s in before.replica_statuses.items()}
        self.start_time, self.completion_time = before.start_time, before.completion_time
        self.first_pod_time = persisted.first_pod_time
        self.first_running_time = persisted.first_running_time
        self.started = persisted.started
        self.strategy: StrategyChoice | None = before.strategy
        self.spec_hash = before.spec_hash
        self.progress = before.progress
        self.replica_statuses: dict[Role, ReplicaStatus] = before.replica_statuses
        self.phase, self.message, self.workers = before.phase, before.message, before.workers

        self.plan = PlanBuilder()
        self.conditions = Conditions(before.conditions, now)
        self._spec_hash_now = ""

    def _sort(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            if pod.owner_uid != self.job.uid:
                self.foreign[pod.name] = pod
            elif pod.role in ROLES and pod.name == pod_name(self.name, pod.role, pod.index):
                self.pods[Replica(Role(pod.role), pod.index)] = pod
            else:
                self.misnamed.append(pod)

    # Looking

    def pod_name(self, replica: Replica) -> str:
        """Name of the pod of a replica."""
        return pod_name(self.name, replica.role, replica.index)

    def main(self, replica: Replica) -> str:
        """Name of the container whose end counts."""
        return self.main_names.get(replica.role, "")

    def restart_policy(self, replica: Replica) -> RestartPolicy:
        """The role's restart policy."""
        spec = self.spec.replica_specs.get(replica.role)
        return spec.restart_policy if spec else RestartPolicy.ON_FAILURE

    def serves(self, replica: Replica) -> bool:
        """Whether the replica only serves others and so never completes."""
        return replica.role is Role.PS or (
            replica.role is Role.WORKER
            and self.strategy is not None
            and self.strategy.type is StrategyType.PARAMETER_SERVER
        )

    def node_lost(self, pod: Pod) -> bool:
        """Whether the pod's node has been given up.

        Where nodes may not be read, the node controller's word on the pod counts: NodeNotReady. It comes late
        (after its own grace period), and `nodeLossSeconds` are counted from there.
        """
        node = self.snapshot.nodes.get(pod.node) if pod.node else None
        if node is not None:
            return node.lost
        if pod.not_ready_reason != NODE_NOT_READY or pod.not_ready_since is None:
            return False
        given_up = pod.not_ready_since + timedelta(seconds=self.spec.failure_policy.node_loss_seconds)
        if self.now < given_up:
            self.plan.requeue_at(given_up)
        return self.now >= given_up

    def lost_nodes(self) -> tuple[str, ...]:
        """Nodes of this job's pods that have been given up."""
        return tuple(sorted({pod.node for pod in self.snapshot.pods if pod.node and self.node_lost(pod)}))

    def current(self, replica: Replica) -> Pod | None:
        """The pod of the replica, unless it is one of ours to replace."""
        pod, record = self.pods.get(replica), self.records.get(replica)
        if pod is None or record is None or pod.attempt < record.attempt:
            return None
        replaced = self.evaluators.get(replica.index) if replica.role is Role.EVALUATOR else None
        if replaced and replaced.due is None and replaced.uid == pod.uid and not replaced.stays:
            return None
        return pod

    @property
    def waits_to_act(self) -> bool:
        """Whether an incident is open whose action is still to come."""
        return self.incident is not None and self.incident.acted_attempt is None

    @property
    def spec_hash_now(self) -> str:
        """Hash of the spec as it is, which several policies ask for."""
        self._spec_hash_now = self._spec_hash_now or spec_hash(self.spec)
        return self._spec_hash_now

    # Writing

    def remove(self, pod: Pod) -> bool:
        """Delete a pod of ours. Returns whether its name is free right after."""
        return self.plan.delete_pod(pod, node_lost=self.node_lost(pod))

    def expect_attempt(self, due: datetime | None) -> None:
        """When the next attempt begins, if one waits for that."""
        self.backoff = self.backoff.model_copy(update={"next_attempt_time": due})

    def renew(self, replica: Replica) -> None:
        """From now on the replica's pod has to be of the current attempt."""
        self.records[replica] = ReplicaRecord(self.attempt, observed=False)
        self.container_restarts.pop(replica, None)

    def count_restart(self, role: Role, number: int = 1) -> None:
        """One more pod of the role was replaced or restarted in place because of a failure."""
        self.role_restarts[role] = self.role_restarts.get(role, 0) + number

    def choose_strategy(self) -> None:
        """Take the strategy anew from the spec."""
        self.strategy = choose_strategy(self.spec)
