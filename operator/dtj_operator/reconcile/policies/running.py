"""The Running condition: when a job is Running, what it has recovered from, and why it is not Running."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import TRAINING_ROLES, Cause, ConditionType, EventReason, Reason, RestartPolicy, Role
from dtj_operator.api.wire_model import whole_second
from dtj_operator.reconcile.failures.pod_problems import find_pod_problem, find_side_problem
from dtj_operator.reconcile.failures.termination import ended
from dtj_operator.reconcile.state.blocked_writes import unanswered, untried
from dtj_operator.reconcile.state.replicas import success_replica
from dtj_operator.reconcile.state.scope import ALL_READY
from dtj_operator.reconcile.state.snapshot import TERMINAL

if TYPE_CHECKING:
    from datetime import datetime

    from dtj_operator.reconcile.state.replicas import Replica
    from dtj_operator.reconcile.state.scope import Draft

IN_PLACE = "RestartInPlace"
"""`lastIncident.action` of a restart by the kubelet."""


def is_up(draft: Draft, replica: Replica) -> bool:
    """Whether the replica does its part: its pod is Ready, or it is done."""
    if replica in draft.completed:
        return True
    pod = draft.current(replica)
    return (
        pod is not None
        and pod.ready
        and pod.phase not in TERMINAL
        and pod.deleted_at is None
        and not draft.node_lost(pod)
    )


def all_up(draft: Draft) -> bool:
    """Whether every chief, worker and ps does its part, and there is one to do it."""
    training = [replica for replica in draft.desired if replica.role in TRAINING_ROLES]
    return (
        any(replica.role in {"chief", "worker"} for replica in training)
        and draft.records.keys() >= set(training)
        and all(is_up(draft, replica) for replica in training)
    )


def running_again(draft: Draft) -> None:
    """The first Running after a start, and the end of an incident."""
    if not draft.started:
        draft.started = True
        draft.first_running_time = draft.first_running_time or whole_second(draft.now)
        draft.note(EventReason.STARTED, "All pods are ready; training runs.")
    incident = draft.incident
    if incident is None:
        _recovered_in_place(draft)
        return
    if incident.acted_attempt is None:
        return
    # Where a pod made by the action was restarted in place since, it is that which is recovered from.
    last = draft.last_incident
    cause, since = (last.cause, last.time) if last else (incident.root.cause, incident.opened_at)
    seconds = _recovered(draft, since)
    draft.incident = None
    planned = cause is Cause.SCALED
    message = f"{'Scaled' if planned else f'Recovered from {cause}'} after {seconds:.1f} s."
    draft.set_false(ConditionType.RESTARTING, Reason.RECOVERED, message)
    draft.note(EventReason.RECOVERED, message)


def _recovered_in_place(draft: Draft) -> None:
    """Nothing was acted upon after a restart by the kubelet, but it is over now.

    One of before a suspension ended with that: the time since then is none that a recovery took.
    """
    last = draft.last_incident
    if last is None or last.action != IN_PLACE or last.recovered_at is not None:
        return
    if draft.start_time is not None and last.time < draft.start_time:
        return
    seconds = _recovered(draft, last.time)
    draft.note(EventReason.RECOVERED, f"Recovered from {last.cause} in place after {seconds:.1f} s.")


def _recovered(draft: Draft, since: datetime) -> float:
    """Write the recovery down. Returns the seconds that it took."""
    seconds = max(0.0, round((draft.now - since).total_seconds(), 3))
    if draft.last_incident is not None:
        draft.last_incident = draft.last_incident.model_copy(
            update={"recovered_at": draft.now, "recovery_seconds": seconds}
        )
    return seconds


NAMED = 3
"""So many pods are named in a message; the rest is counted."""


def set_running(draft: Draft) -> None:
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
    found = find_side_problem(draft)
    sentence = f"Training runs, but {found.sentence}" if found else ALL_READY
    old = draft.condition(ConditionType.RUNNING)
    if old and old.holds and (old.message == sentence or _same_subject(old.message, sentence)):
        return
    if old and old.holds and found is None and untried(draft):
        return
    draft.set_true(ConditionType.RUNNING, Reason.ALL_READY, sentence)


def _why_not(draft: Draft) -> tuple[Reason, str]:
    if success_replica(draft) is None:
        return (
            Reason.NO_REPLICAS,
            "No chief and no worker is wanted; set spec.replicaSpecs.worker.replicas.",
        )
    invalid = draft.condition(ConditionType.INVALID)
    if invalid and invalid.holds and invalid.reason != Reason.INVALID:
        return Reason.INVALID, invalid.message
    found = find_pod_problem(draft)
    if found:
        return found.reason, found.sentence
    down = [s for s in draft.desired if s.role is not Role.EVALUATOR and not is_up(draft, s)]
    waited, more = _names(draft, down), _ended_beside(draft, down)
    if draft.holds(ConditionType.RESTARTING):
        return Reason.RESTARTING, f"Recovering; waits for {waited}.{more}"
    if draft.started:
        return Reason.NOT_READY, f"Waits for {waited} to be ready again.{more}"
    return Reason.STARTING, f"Waits for {waited} to be ready.{more}"


def _names(draft: Draft, down: list[Replica]) -> str:
    names = ", ".join(draft.pod_name(replica) for replica in down[:NAMED])
    more = len(down) - NAMED
    return f"{names} and {more} more" if more > 0 else names or "its pods"


def _ended_beside(draft: Draft, down: list[Replica]) -> str:
    """A sentence about a container that has ended beside a main one that runs, or nothing."""
    for replica in down:
        pod = draft.current(replica)
        if pod is None or pod.phase != "Running" or draft.restart_policy(replica) is RestartPolicy.ALWAYS:
            continue
        for one in pod.containers:
            if one.terminated and not one.init and ended(pod, draft.main(replica)) is None:
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
