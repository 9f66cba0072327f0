"""What people and programs read: counts, the Running condition, phase and message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import ConditionType, Phase, Reason, RestartPolicy, Role
from dtj_operator.api.status import ReplicaStatus
from dtj_operator.reconcile.failures.failure import ended
from dtj_operator.reconcile.failures.pod_problems import obstacle, obstacle_beside, unanswered, untried
from dtj_operator.reconcile.policies.completion import success_slot
from dtj_operator.reconcile.policies.created import without_checkpoints
from dtj_operator.reconcile.policies.running import all_up, is_up, running_again

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.replicas import Slot
    from dtj_operator.reconcile.state.scope import Draft

ALL_READY = "All pods are ready."
NAMED = 3
"""So many pods are named in a message; the rest is counted."""


def report(draft: Draft) -> None:
    """Derive everything that nobody decides."""
    if draft.job.problem:
        return
    _count(draft)
    if not draft.finished and not draft.spec.suspend:
        _running(draft)
    draft.phase = _phase(draft)
    draft.message = _message(draft)


def _count(draft: Draft) -> None:
    statuses: dict[Role, ReplicaStatus] = {}
    ready_workers = wanted_workers = 0
    pods: dict[Role, list[int]] = {}
    for slot, pod in draft.pods.items():
        counts = pods.setdefault(slot.role, [0, 0, 0])
        counts[0] += 1
        if pod.deleted_at is not None:
            continue
        counts[1] += pod.ready
        counts[2] += _failed(draft, slot)
    done: dict[Role, int] = {}
    for slot in draft.completed:
        done[slot.role] = done.get(slot.role, 0) + 1
    for role, replica in draft.spec.replica_specs.items():
        created, ready, failed = pods.get(role, (0, 0, 0))
        statuses[role] = ReplicaStatus.model_construct(
            desired=replica.replicas,
            created=created,
            ready=ready,
            succeeded=done.get(role, 0),
            failed=failed,
            restarts=draft.role_restarts.get(role, 0),
        )
        if role in {Role.CHIEF, Role.WORKER}:
            ready_workers += ready
            wanted_workers += replica.replicas
    draft.replica_statuses = statuses
    draft.workers = f"{ready_workers}/{wanted_workers}"


def _failed(draft: Draft, slot: Slot) -> bool:
    pod = draft.pods[slot]
    if slot in draft.completed:
        return False
    end = ended(pod, draft.main(slot))
    return pod.phase == "Failed" or (end is not None and end.exit_code != 0)


def _running(draft: Draft) -> None:
    """True when every pod of chief, worker and ps is Ready or done, and none waits to be replaced; else why not."""
    if all_up(draft) and not draft.waits_to_act:
        _all_ready(draft)
        running_again(draft)
        return
    reason, sentence = _why_not(draft)
    old = draft.condition(ConditionType.RUNNING)
    if old and not old.holds and old.reason == reason and _same_subject(old.message, sentence):
        return
    if old and not old.holds and reason in {Reason.STARTING, Reason.RESTARTING} and unanswered(draft, old.reason):
        return
    draft.set_false(ConditionType.RUNNING, reason, sentence)


def _all_ready(draft: Draft) -> None:
    """Running; what is in the way of an evaluator or of the service is said beside it."""
    found = obstacle_beside(draft)
    sentence = f"Training runs, but {found.sentence}" if found else ALL_READY
    old = draft.condition(ConditionType.RUNNING)
    if old and old.holds and (old.message == sentence or _same_subject(old.message, sentence)):
        return
    if old and old.holds and found is None and untried(draft):
        return
    draft.set_true(ConditionType.RUNNING, Reason.ALL_READY, sentence)


def _why_not(draft: Draft) -> tuple[Reason, str]:
    if success_slot(draft) is None:
        return (
            Reason.NO_REPLICAS,
            "No chief and no worker is wanted; set spec.replicaSpecs.worker.replicas.",
        )
    invalid = draft.condition(ConditionType.INVALID)
    if invalid and invalid.holds and invalid.reason != Reason.INVALID:
        return Reason.INVALID, invalid.message
    found = obstacle(draft)
    if found:
        return found.reason, found.sentence
    down = [s for s in draft.wanted if s.role is not Role.EVALUATOR and not is_up(draft, s)]
    waited, more = _names(draft, down), _ended_beside(draft, down)
    if draft.holds(ConditionType.RESTARTING):
        return Reason.RESTARTING, f"Recovering; waits for {waited}.{more}"
    if draft.started:
        return Reason.NOT_READY, f"Waits for {waited} to be ready again.{more}"
    return Reason.STARTING, f"Waits for {waited} to be ready.{more}"


def _names(draft: Draft, down: list[Slot]) -> str:
    names = ", ".join(draft.pod_name(slot) for slot in down[:NAMED])
    more = len(down) - NAMED
    return f"{names} and {more} more" if more > 0 else names or "its pods"


def _ended_beside(draft: Draft, down: list[Slot]) -> str:
    """A sentence about a container that has ended beside a main one that runs, or nothing."""
    for slot in down:
        pod = draft.current(slot)
        if pod is None or pod.phase != "Running" or draft.restart_policy(slot) is RestartPolicy.ALWAYS:
            continue
        for one in pod.containers:
            if one.terminated and not one.init and ended(pod, draft.main(slot)) is None:
                told = f" Container {one.name} of {pod.name} has ended (exit code {one.terminated.exit_code})"
                return (
                    f"{told}, and a pod is ready only while all its containers run; "
                    "make it an init container, or keep it running."
                )
    return ""


def _same_subject(old: str, new: str) -> bool:
    """Whether only the words after `subject:` differ; those keep changing by themselves."""
    subject, colon, _ = new.partition(": ")
    return bool(colon) and old.startswith(f"{subject}: ")


def _phase(draft: Draft) -> Phase:
    if draft.holds(ConditionType.SUCCEEDED):
        return Phase.SUCCEEDED
    if draft.holds(ConditionType.FAILED):
        return Phase.FAILED
    if draft.holds(ConditionType.SUSPENDED):
        return Phase.SUSPENDED
    if draft.holds(ConditionType.RUNNING):
        return Phase.RUNNING
    if (draft.holds(ConditionType.RESTARTING) or draft.started) and success_slot(draft) is not None:
        return Phase.RESTARTING
    taken_up = any(pod.node or pod.phase != "Pending" for pod in draft.pods.values())
    return Phase.STARTING if taken_up else Phase.PENDING


def _message(draft: Draft) -> str:
    told = _sentence(draft)
    if without_checkpoints(draft) and not draft.finished:
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
