"""The Running condition: when a job is Running, what it has recovered from, and why it is not Running."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import TRAINING_ROLES, Cause, ConditionType, EventReason, Reason, RestartPolicy, Role
from dtj_operator.api.wire_model import whole_second
from dtj_operator.reconcile.failures.pod_problems import find_pod_problem, find_side_problem
from dtj_operator.reconcile.failures.termination import ended
from dtj_operator.reconcile.state.blocked_writes import unanswered, untried
from dtj_operator.reconcile.state.conditions import ALL_READY
from dtj_operator.reconcile.state.replicas import success_replica
from dtj_operator.reconcile.state.snapshot import TERMINAL

if TYPE_CHECKING:
    from datetime import datetime

    from dtj_operator.reconcile.state.replicas import Replica
    from dtj_operator.reconcile.state.scope import ReconcileScope

IN_PLACE = "RestartInPlace"
"""`lastIncident.action` of a restart by the kubelet."""


def is_up(scope: ReconcileScope, replica: Replica) -> bool:
    """Whether the replica does its part: its pod is Ready, or it is done."""
    if replica in scope.completed:
        return True
    pod = scope.current(replica)
    return (
        pod is not None
        and pod.ready
        and pod.phase not in TERMINAL
        and pod.deleted_at is None
        and not scope.node_lost(pod)
    )


def all_up(scope: ReconcileScope) -> bool:
    """Whether every chief, worker and ps does its part, and there is one to do it."""
    training = [replica for replica in scope.desired if replica.role in TRAINING_ROLES]
    return (
        any(replica.role in {"chief", "worker"} for replica in training)
        and scope.records.keys() >= set(training)
        and all(is_up(scope, replica) for replica in training)
    )


def running_again(scope: ReconcileScope) -> None:
    """The first Running after a start, and the end of an incident."""
    if not scope.started:
        scope.started = True
        scope.first_running_time = scope.first_running_time or whole_second(scope.now)
        scope.plan.note(EventReason.STARTED, "All pods are ready; training runs.")
    incident = scope.incident
    if incident is None:
        _recovered_in_place(scope)
        return
    if incident.acted_attempt is None:
        return
    # Where a pod made by the action was restarted in place since, it is that which is recovered from.
    last = scope.last_incident
    cause, since = (last.cause, last.time) if last else (incident.root_cause.cause, incident.opened_at)
    seconds = _recovered(scope, since)
    scope.incident = None
    planned = cause is Cause.SCALED
    message = f"{'Scaled' if planned else f'Recovered from {cause}'} after {seconds:.1f} s."
    scope.conditions.set_false(ConditionType.RESTARTING, Reason.RECOVERED, message)
    scope.plan.note(EventReason.RECOVERED, message)


def _recovered_in_place(scope: ReconcileScope) -> None:
    """Nothing was acted upon after a restart by the kubelet, but it is over now.

    One of before a suspension ended with that: the time since then is none that a recovery took.
    """
    last = scope.last_incident
    if last is None or last.action != IN_PLACE or last.recovered_at is not None:
        return
    if scope.start_time is not None and last.time < scope.start_time:
        return
    seconds = _recovered(scope, last.time)
    scope.plan.note(EventReason.RECOVERED, f"Recovered from {last.cause} in place after {seconds:.1f} s.")


def _recovered(scope: ReconcileScope, since: datetime) -> float:
    """Write the recovery down. Returns the seconds that it took."""
    seconds = max(0.0, round((scope.now - since).total_seconds(), 3))
    if scope.last_incident is not None:
        scope.last_incident = scope.last_incident.model_copy(
            update={"recovered_at": scope.now, "recovery_seconds": seconds}
        )
    return seconds


NAMED = 3
"""So many pods are named in a message; the rest is counted."""


def set_running(scope: ReconcileScope) -> None:
    """True when every pod of chief, worker and ps is Ready or done, and none waits to be replaced; else why not."""
    if all_up(scope) and not scope.waits_to_act:
        _all_ready(scope)
        running_again(scope)
        return
    reason, sentence = _why_not(scope)
    old = scope.conditions.get(ConditionType.RUNNING)
    if old and not old.holds and old.reason == reason and _same_subject(old.message, sentence):
        return
    if old and not old.holds and reason in {Reason.STARTING, Reason.RESTARTING} and unanswered(scope, old.reason):
        return
    scope.conditions.set_false(ConditionType.RUNNING, reason, sentence)


def _all_ready(scope: ReconcileScope) -> None:
    """Running; what is in the way of an evaluator or of the service is said beside it."""
    found = find_side_problem(scope)
    sentence = f"Training runs, but {found.sentence}" if found else ALL_READY
    old = scope.conditions.get(ConditionType.RUNNING)
    if old and old.holds and (old.message == sentence or _same_subject(old.message, sentence)):
        return
    if old and old.holds and found is None and untried(scope):
        return
    scope.conditions.set_true(ConditionType.RUNNING, Reason.ALL_READY, sentence)


def _why_not(scope: ReconcileScope) -> tuple[Reason, str]:
    if success_replica(scope) is None:
        return (
            Reason.NO_REPLICAS,
            "No chief and no worker is wanted; set spec.replicaSpecs.worker.replicas.",
        )
    invalid = scope.conditions.get(ConditionType.INVALID)
    if invalid and invalid.holds and invalid.reason != Reason.INVALID:
        return Reason.INVALID, invalid.message
    found = find_pod_problem(scope)
    if found:
        return found.reason, found.sentence
    down = [s for s in scope.desired if s.role is not Role.EVALUATOR and not is_up(scope, s)]
    waited, more = _names(scope, down), _ended_beside(scope, down)
    if scope.conditions.is_true(ConditionType.RESTARTING):
        return Reason.RESTARTING, f"Recovering; waits for {waited}.{more}"
    if scope.started:
        return Reason.NOT_READY, f"Waits for {waited} to be ready again.{more}"
    return Reason.STARTING, f"Waits for {waited} to be ready.{more}"


def _names(scope: ReconcileScope, down: list[Replica]) -> str:
    names = ", ".join(scope.pod_name(replica) for replica in down[:NAMED])
    more = len(down) - NAMED
    return f"{names} and {more} more" if more > 0 else names or "its pods"


def _ended_beside(scope: ReconcileScope, down: list[Replica]) -> str:
    """A sentence about a container that has ended beside a main one that runs, or nothing."""
    for replica in down:
        pod = scope.current(replica)
        if pod is None or pod.phase != "Running" or scope.restart_policy(replica) is RestartPolicy.ALWAYS:
            continue
        for one in pod.containers:
            if one.terminated and not one.init and ended(pod, scope.main(replica)) is None:
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
