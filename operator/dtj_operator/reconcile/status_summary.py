"""What people read first: counts, phase and message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import ConditionType, Phase, Reason, Role
from dtj_operator.api.status import ReplicaStatus
from dtj_operator.reconcile.failures.termination import ended
from dtj_operator.reconcile.state.replicas import success_replica
from dtj_operator.reconcile.state.scope import ALL_READY

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.replicas import Replica
    from dtj_operator.reconcile.state.scope import Draft


def summarize_status(draft: Draft) -> None:
    """Derive everything that nobody decides."""
    if draft.job.problem:
        return
    _count(draft)
    draft.phase = _phase(draft)
    draft.message = _message(draft)


def _count(draft: Draft) -> None:
    statuses: dict[Role, ReplicaStatus] = {}
    ready_workers = wanted_workers = 0
    pods: dict[Role, list[int]] = {}
    for replica, pod in draft.pods.items():
        counts = pods.setdefault(replica.role, [0, 0, 0])
        counts[0] += 1
        if pod.deleted_at is not None:
            continue
        counts[1] += pod.ready
        counts[2] += _failed(draft, replica)
    done: dict[Role, int] = {}
    for replica in draft.completed:
        done[replica.role] = done.get(replica.role, 0) + 1
    for role, spec in draft.spec.replica_specs.items():
        created, ready, failed = pods.get(role, (0, 0, 0))
        statuses[role] = ReplicaStatus.model_construct(
            desired=spec.replicas,
            created=created,
            ready=ready,
            succeeded=done.get(role, 0),
            failed=failed,
            restarts=draft.role_restarts.get(role, 0),
        )
        if role in {Role.CHIEF, Role.WORKER}:
            ready_workers += ready
            wanted_workers += spec.replicas
    draft.replica_statuses = statuses
    draft.workers = f"{ready_workers}/{wanted_workers}"


def _failed(draft: Draft, replica: Replica) -> bool:
    pod = draft.pods[replica]
    if replica in draft.completed:
        return False
    end = ended(pod, draft.main(replica))
    return pod.phase == "Failed" or (end is not None and end.exit_code != 0)


def _phase(draft: Draft) -> Phase:
    if draft.holds(ConditionType.SUCCEEDED):
        return Phase.SUCCEEDED
    if draft.holds(ConditionType.FAILED):
        return Phase.FAILED
    if draft.holds(ConditionType.SUSPENDED):
        return Phase.SUSPENDED
    if draft.holds(ConditionType.RUNNING):
        return Phase.RUNNING
    if (draft.holds(ConditionType.RESTARTING) or draft.started) and success_replica(draft) is not None:
        return Phase.RESTARTING
    taken_up = any(pod.node or pod.phase != "Pending" for pod in draft.pods.values())
    return Phase.STARTING if taken_up else Phase.PENDING


def _message(draft: Draft) -> str:
    told = _sentence(draft)
    if draft.job.without_checkpoints and not draft.finished:
        return f"{told} Without spec.checkpoint.directory a restart begins at step 0."
    return told


def _sentence(draft: Draft) -> str:
    for kind in (ConditionType.SUCCEEDED, ConditionType.FAILED, ConditionType.SUSPENDED):
        condition = draft.condition(kind)
        if condition and condition.holds:
            return condition.message
    invalid = draft.condition(ConditionType.INVALID)
    if invalid and invalid.holds:
        return invalid.message
    restarting = draft.condition(ConditionType.RESTARTING)
    due = draft.backoff.next_attempt_time
    if restarting and restarting.holds and due is not None:
        return f"{restarting.message}; restarts at {due:%H:%M:%S} UTC."
    running = draft.condition(ConditionType.RUNNING)
    if running is None:
        return ""
    if running.message == ALL_READY and restarting and restarting.reason == Reason.RECOVERED:
        return restarting.message
    return running.message
