"""The pods of a job in one pass: by replica, and those that are not where they belong."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.api.enums import TRAINING_ROLES, Role
from dtj_operator.builders.main_container import main_container_name
from dtj_operator.builders.metadata import pod_name
from dtj_operator.reconcile.state.replicas import Replica
from dtj_operator.reconcile.state.snapshot import TERMINAL

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from dtj_operator.reconcile.state.replicas import ReplicaRecord, Replicas
    from dtj_operator.reconcile.state.snapshot import Pod, Snapshot

NODE_NOT_READY = "NodeNotReady"
"""What the node controller writes as the reason of Ready=False on the pods of a node that is silent."""
ROLES = frozenset(Role)
WORKING_ROLES = frozenset({Role.CHIEF, Role.WORKER})
"""The roles that a job cannot be Running without: one of them has to have a pod."""


class JobPods:
    """The pods that this job owns, or that have its label. The records of the replicas say which are current."""

    __slots__ = ("_main_containers", "_now", "_replicas", "_requeue_at", "_snapshot", "foreign", "misnamed", "owned")

    def __init__(
        self, snapshot: Snapshot, replicas: Replicas, now: datetime, requeue_at: Callable[[datetime], None]
    ) -> None:
        """Sort the pods of the snapshot."""
        self._snapshot, self._replicas, self._now, self._requeue_at = snapshot, replicas, now, requeue_at
        job = snapshot.job
        self._main_containers = {role: main_container_name(job, role) for role in job.spec.replica_specs}
        self.owned: dict[Replica, Pod] = {}
        """Pods of this job in the name of their replica."""
        self.misnamed: list[Pod] = []
        """Pods of this job whose name is not their replica's."""
        self.foreign: dict[str, Pod] = {}
        """Pods with our label that belong to somebody else, by name."""
        for pod in snapshot.pods:
            if pod.owner_uid != job.uid:
                self.foreign[pod.name] = pod
            elif pod.role in ROLES and pod.name == pod_name(job.name, pod.role, pod.index):
                self.owned[Replica(Role(pod.role), pod.index)] = pod
            else:
                self.misnamed.append(pod)

    def main_container(self, replica: Replica) -> str:
        """Return the name of the container whose end counts."""
        return self._main_containers.get(replica.role, "")

    def current(self, replica: Replica) -> Pod | None:
        """Return the replica's pod, unless it is one of ours to replace."""
        pod, record = self.owned.get(replica), self._replicas.records.get(replica)
        if pod is None or record is None or self._is_outdated(pod, record):
            return None
        if replica.role is Role.EVALUATOR:
            # The attempt does not tell an evaluator's old pod from its new one.
            restart = self._replicas.evaluator_restarts.get(replica.index)
            if restart and restart.due is None and restart.uid == pod.uid and not restart.stays:
                return None
        return pod

    def _is_outdated(self, pod: Pod, record: ReplicaRecord) -> bool:
        """Return whether the pod is of an older attempt than the replica asks for.

        Status decides that. An attempt that it does not know yet was written by another operator, of whose status this
        one has not heard, or by somebody else: such a pod counts as any of the present attempt until it is replaced.
        """
        known = self._snapshot.job.status.attempt
        if pod.attempt <= known:
            return pod.attempt < record.attempt
        return record.attempt > known or (pod.deleted_at is not None and not record.observed)

    def node_lost(self, pod: Pod) -> bool:
        """Return whether the pod's node counts as lost. Where time alone decides, requests a pass at that time.

        Where nodes may not be read, the node controller's reason on the pod counts: NodeNotReady. It comes late
        (after its own grace period), and `nodeLossSeconds` are counted from there.
        """
        node = self._snapshot.nodes.get(pod.node) if pod.node else None
        if node is not None:
            return node.lost
        if pod.not_ready_reason != NODE_NOT_READY or pod.not_ready_since is None:
            return False
        seconds = self._snapshot.job.spec.failure_policy.node_loss_seconds
        given_up = pod.not_ready_since + timedelta(seconds=seconds)
        if self._now < given_up:
            self._requeue_at(given_up)
        return self._now >= given_up

    def lost_nodes(self) -> tuple[str, ...]:
        """Return the lost nodes of this job's pods."""
        return tuple(sorted({pod.node for pod in self._snapshot.pods if pod.node and self.node_lost(pod)}))

    def is_up(self, replica: Replica) -> bool:
        """Return whether the replica does its part: its pod is Ready, or it is completed."""
        if replica in self._replicas.completed:
            return True
        pod = self.current(replica)
        return (
            pod is not None
            and pod.ready
            and pod.phase not in TERMINAL
            and pod.deleted_at is None
            and not self.node_lost(pod)
        )

    def all_up(self) -> bool:
        """Return whether every chief, worker and ps does its part, and there is one to do it."""
        training = [replica for replica in self._replicas.desired if replica.role in TRAINING_ROLES]
        return (
            any(replica.role in WORKING_ROLES for replica in training)
            and self._replicas.records.keys() >= set(training)
            and all(self.is_up(replica) for replica in training)
        )
