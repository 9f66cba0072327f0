"""What people read first: counts, phase and message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import ConditionType, Phase, Reason, Role
from dtj_operator.api.status import ReplicaStatus
from dtj_operator.reconcile.failures.termination import ended
from dtj_operator.reconcile.state.conditions import ALL_READY
from dtj_operator.reconcile.state.replicas import success_replica

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.replicas import Replica
    from dtj_operator.reconcile.state.scope import ReconcileScope


def summarize_status(scope: ReconcileScope) -> None:
    """Derive everything that nobody decides."""
    if scope.job.problem:
        return
    _count(scope)
    scope.phase = _phase(scope)
    scope.message = _message(scope)


def _count(scope: ReconcileScope) -> None:
    statuses: dict[Role, ReplicaStatus] = {}
    ready_workers = wanted_workers = 0
    pods: dict[Role, list[int]] = {}
    for replica, pod in scope.pods.items():
        counts = pods.setdefault(replica.role, [0, 0, 0])
        counts[0] += 1
        if pod.deleted_at is not None:
            continue
        counts[1] += pod.ready
        counts[2] += _failed(scope, replica)
    done: dict[Role, int] = {}
    for replica in scope.completed:
        done[replica.role] = done.get(replica.role, 0) + 1
    for role, spec in scope.spec.replica_specs.items():
        created, ready, failed = pods.get(role, (0, 0, 0))
        statuses[role] = ReplicaStatus.model_construct(
            desired=spec.replicas,
            created=created,
            ready=ready,
            succeeded=done.get(role, 0),
            failed=failed,
            restarts=scope.role_restarts.get(role, 0),
        )
        if role in {Role.CHIEF, Role.WORKER}:
            ready_workers += ready
            wanted_workers += spec.replicas
    scope.replica_statuses = statuses
    scope.workers = f"{ready_workers}/{wanted_workers}"


def _failed(scope: ReconcileScope, replica: Replica) -> bool:
    pod = scope.pods[replica]
    if replica in scope.completed:
        return False
    end = ended(pod, scope.main(replica))
    return pod.phase == "Failed" or (end is not None and end.exit_code != 0)


def _phase(scope: ReconcileScope) -> Phase:
    if scope.conditions.is_true(ConditionType.SUCCEEDED):
        return Phase.SUCCEEDED
    if scope.conditions.is_true(ConditionType.FAILED):
        return Phase.FAILED
    if scope.conditions.is_true(ConditionType.SUSPENDED):
        return Phase.SUSPENDED
    if scope.conditions.is_true(ConditionType.RUNNING):
        return Phase.RUNNING
    if (scope.conditions.is_true(ConditionType.RESTARTING) or scope.started) and success_replica(scope) is not None:
        return Phase.RESTARTING
    taken_up = any(pod.node or pod.phase != "Pending" for pod in scope.pods.values())
    return Phase.STARTING if taken_up else Phase.PENDING


def _message(scope: ReconcileScope) -> str:
    told = _sentence(scope)
    if scope.job.without_checkpoints and not scope.conditions.finished:
        return f"{told} Without spec.checkpoint.directory a restart begins at step 0."
    return told


def _sentence(scope: ReconcileScope) -> str:
    for kind in (ConditionType.SUCCEEDED, ConditionType.FAILED, ConditionType.SUSPENDED):
        condition = scope.conditions.get(kind)
        if condition and condition.holds:
            return condition.message
    invalid = scope.conditions.get(ConditionType.INVALID)
    if invalid and invalid.holds:
        return invalid.message
    restarting = scope.conditions.get(ConditionType.RESTARTING)
    due = scope.backoff.next_attempt_time
    if restarting and restarting.holds and due is not None:
        return f"{restarting.message}; restarts at {due:%H:%M:%S} UTC."
    running = scope.conditions.get(ConditionType.RUNNING)
    if running is None:
        return ""
    if running.message == ALL_READY and restarting and restarting.reason == Reason.RECOVERED:
        return restarting.message
    return running.message
