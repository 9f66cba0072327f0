"""The summary in a status, for people: counts, phase and message. They follow from all other fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dtj_operator.api.enums import ConditionType, Phase, Reason, Role
from dtj_operator.api.status import ReplicaStatus
from dtj_operator.reconcile.failures.termination import find_termination
from dtj_operator.reconcile.state.conditions import ALL_READY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dtj_operator.reconcile.state.job_pods import JobPods
    from dtj_operator.reconcile.state.replicas import Replica, Replicas
    from dtj_operator.reconcile.state.scope import ReconcileScope


PHASES = (
    (ConditionType.SUCCEEDED, Phase.SUCCEEDED),
    (ConditionType.FAILED, Phase.FAILED),
    (ConditionType.SUSPENDED, Phase.SUSPENDED),
    (ConditionType.RUNNING, Phase.RUNNING),
)
"""The phase of a job is that of the first condition which is True."""
TOLD_FIRST = (ConditionType.SUCCEEDED, ConditionType.FAILED, ConditionType.SUSPENDED, ConditionType.INVALID)
"""The message of the first of these which is True is the job's."""
NAMED = 3
"""So many nodes are named; the rest is counted."""


class StatusSummary(NamedTuple):
    """The fields of a status that sum it up."""

    phase: str
    message: str
    workers: str
    replica_statuses: dict[Role, ReplicaStatus]


def summarize_status(scope: ReconcileScope) -> StatusSummary:
    """Return the fields of a status that follow from all others. Of a job with an unreadable spec most stay."""
    if scope.job.problem:
        before, invalid = scope.job.status, scope.conditions.get(ConditionType.INVALID)
        message = invalid.message if invalid else before.message
        return StatusSummary(before.phase, message, before.workers, before.replica_statuses)
    counts = _replica_statuses(scope)
    working = [counts[role] for role in (Role.CHIEF, Role.WORKER) if role in counts]
    desired = sum(one.desired for one in working)
    succeeded = scope.conditions.is_true(ConditionType.SUCCEEDED)
    workers = f"{desired if succeeded else sum(one.ready for one in working)}/{desired}"
    return StatusSummary(_phase(scope), _message(scope), workers, counts)


def _replica_statuses(scope: ReconcileScope) -> dict[Role, ReplicaStatus]:
    pods: dict[Role, list[int]] = {}
    for replica, pod in scope.pods.owned.items():
        counts = pods.setdefault(replica.role, [0, 0, 0])
        counts[0] += 1
        if pod.deleted_at is not None:
            continue
        counts[1] += pod.ready
        counts[2] += _failed(replica, scope.pods, scope.replicas)
    done: dict[Role, int] = {}
    for replica in scope.replicas.completed:
        done[replica.role] = done.get(replica.role, 0) + 1
    restarts: Mapping[Role, int] = scope.recovery.restarts_by_role
    statuses: dict[Role, ReplicaStatus] = {}
    for role, spec in scope.spec.replica_specs.items():
        created, ready, failed = pods.get(role, (0, 0, 0))
        statuses[role] = ReplicaStatus.model_construct(
            desired=spec.replicas,
            created=created,
            ready=ready,
            succeeded=done.get(role, 0),
            failed=failed,
            restarts=restarts.get(role, 0),
        )
    return statuses


def _failed(replica: Replica, pods: JobPods, replicas: Replicas) -> bool:
    if replica in replicas.completed:
        return False
    pod = pods.owned[replica]
    end = find_termination(pod, pods.main_container(replica))
    return pod.phase == "Failed" or (end is not None and end.exit_code != 0)


def _phase(scope: ReconcileScope) -> Phase:
    conditions = scope.conditions
    for kind, phase in PHASES:
        if conditions.is_true(kind):
            return phase
    was_running = conditions.is_true(ConditionType.RESTARTING) or scope.lifecycle.started
    if was_running and scope.replicas.success_replica is not None:
        return Phase.RESTARTING
    scheduled = any(pod.node or pod.phase != "Pending" for pod in scope.pods.owned.values())
    return Phase.STARTING if scheduled else Phase.PENDING


def _message(scope: ReconcileScope) -> str:
    sentence = _sentence(scope)
    avoided = [] if scope.conditions.finished else scope.rejections.all_avoided()
    if avoided:
        sentence = f"{sentence} {_avoided(avoided)}"
    if not scope.conditions.finished and scope.job.without_checkpoints:
        return f"{sentence} Without spec.checkpoint.directory a restart begins at step 0."
    return sentence


def _avoided(nodes: list[str]) -> str:
    names = ", ".join(nodes[:NAMED]) + (f" and {len(nodes) - NAMED} more" if len(nodes) > NAMED else "")
    which, reject = ("Node", "rejects") if len(nodes) == 1 else ("Nodes", "reject")
    return f"{which} {names} {reject} its pods again and again; the next ones prefer other nodes."


def _sentence(scope: ReconcileScope) -> str:
    conditions = scope.conditions
    for kind in TOLD_FIRST:
        condition = conditions.get(kind)
        if condition and condition.holds:
            return condition.message
    restarting = conditions.get(ConditionType.RESTARTING)
    due = scope.recovery.backoff.next_attempt_time
    if restarting and restarting.holds and due is not None:
        return f"{restarting.message}; restarts at {due:%H:%M:%S} UTC."
    running = conditions.get(ConditionType.RUNNING)
    if running is None:
        return ""
    if running.message == ALL_READY and restarting and restarting.reason == Reason.RECOVERED:
        return restarting.message
    return running.message
