"""The Running condition: when a job is Running, what it has recovered from, and why it is not Running."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import Cause, ConditionType, EventReason, Reason, RestartPolicy, Role
from dtj_operator.reconcile.failures.pod_problems import find_pod_problem, find_side_problem
from dtj_operator.reconcile.failures.termination import find_termination
from dtj_operator.reconcile.state.blocked_writes import unanswered, untried
from dtj_operator.reconcile.state.conditions import ALL_READY
from dtj_operator.reconcile.state.recovery import RESTART_IN_PLACE

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.job_pods import JobPods
    from dtj_operator.reconcile.state.replicas import Replica, Replicas
    from dtj_operator.reconcile.state.scope import ReconcileScope

NAMED = 3
"""So many pods are named in a message; the rest is counted."""


def set_running(scope: ReconcileScope) -> None:
    """Set Running to True when every pod of chief, worker and ps is Ready or done and none waits to be replaced; else
    to False, and say why.
    """
    if scope.pods.all_up() and not scope.recovery.waits_to_act:
        scope.recovery.forget_ends()
        scope.rejections.forget_training()
        _set_true(scope)
        _record_start(scope)
        _record_recovery(scope)
    else:
        _set_false(scope)


def _set_true(scope: ReconcileScope) -> None:
    """Set Running to True, and say what is in the way of an evaluator or of the service."""
    problem = find_side_problem(scope.snapshot, scope.pods, scope.replicas)
    sentence = f"Training runs, but {problem.sentence}" if problem else ALL_READY
    old = scope.conditions.get(ConditionType.RUNNING)
    if old and old.holds and (old.message == sentence or _same_subject(old.message, sentence)):
        return
    if old and old.holds and problem is None and untried(scope.snapshot, scope.pods, scope.replicas):
        return
    scope.conditions.set_true(ConditionType.RUNNING, Reason.ALL_READY, sentence)


def _set_false(scope: ReconcileScope) -> None:
    """Set Running to False. What was said of the same subject, or by a former operator of a refusal, stays."""
    reason, sentence = _why_not(scope)
    old = scope.conditions.get(ConditionType.RUNNING)
    if old and not old.holds:
        if old.reason == reason and _same_subject(old.message, sentence):
            return
        waiting = reason in {Reason.STARTING, Reason.RESTARTING}
        if waiting and unanswered(old.reason, scope.snapshot, scope.pods, scope.replicas):
            return
    scope.conditions.set_false(ConditionType.RUNNING, reason, sentence)


def _record_start(scope: ReconcileScope) -> None:
    """Record the first Running after a start or resume."""
    if not scope.lifecycle.started:
        scope.lifecycle.first_running(scope.now)
        scope.plan.note(EventReason.STARTED, "All pods are ready; training runs.")


def _record_recovery(scope: ReconcileScope) -> None:
    """Close the incident."""
    recovery = scope.recovery
    if recovery.incident is None:
        _record_recovery_in_place(scope)
        return
    # Where a pod made by the action was restarted in place since, it is that which is recovered from.
    last, incident = recovery.last_incident, recovery.incident
    cause, since = (last.cause, last.time) if last else (incident.root_cause.cause, incident.opened_at)
    seconds = recovery.close(since)
    planned = cause == Cause.SCALED
    message = f"{'Scaled' if planned else f'Recovered from {cause}'} after {seconds:.1f} s."
    scope.conditions.set_false(ConditionType.RESTARTING, Reason.RECOVERED, message)
    scope.plan.note(EventReason.RECOVERED, message)


def _record_recovery_in_place(scope: ReconcileScope) -> None:
    """Record that a restart by the kubelet, on which nothing was acted, is over.

    One of before a suspension ended with that: the time since then is none that a recovery took.
    """
    last, start = scope.recovery.last_incident, scope.lifecycle.start_time
    if last is None or last.action != RESTART_IN_PLACE or last.recovered_at is not None:
        return
    if start is not None and last.time < start:
        return
    seconds = scope.recovery.close(last.time)
    scope.plan.note(EventReason.RECOVERED, f"Recovered from {last.cause} in place after {seconds:.1f} s.")


def _why_not(scope: ReconcileScope) -> tuple[Reason, str]:
    replicas, pods = scope.replicas, scope.pods
    if replicas.success_replica is None:
        return (
            Reason.NO_REPLICAS,
            "No chief and no worker is wanted; set spec.replicaSpecs.worker.replicas.",
        )
    invalid = scope.conditions.get(ConditionType.INVALID)
    if invalid and invalid.holds and invalid.reason != Reason.INVALID:
        return Reason.INVALID, invalid.message
    problem = find_pod_problem(scope.snapshot, pods, replicas)
    if problem:
        return problem.reason, problem.sentence
    down = [r for r in replicas.desired if r.role is not Role.EVALUATOR and not pods.is_up(r)]
    waited, more = _names(down, replicas), _ended_beside(down, pods, replicas)
    if scope.conditions.is_true(ConditionType.RESTARTING):
        return Reason.RESTARTING, f"Recovering; waits for {waited}.{more}"
    if scope.lifecycle.started:
        return Reason.NOT_READY, f"Waits for {waited} to be ready again.{more}"
    return Reason.STARTING, f"Waits for {waited} to be ready.{more}"


def _names(down: list[Replica], replicas: Replicas) -> str:
    names = ", ".join(replicas.pod_name(replica) for replica in down[:NAMED])
    more = len(down) - NAMED
    return f"{names} and {more} more" if more > 0 else names or "its pods"


def _ended_beside(down: list[Replica], pods: JobPods, replicas: Replicas) -> str:
    """Return a sentence about a container that has ended beside a main one that runs, or nothing."""
    for replica in down:
        pod = pods.current(replica)
        if pod is None or pod.phase != "Running" or replicas.restart_policy(replica) is RestartPolicy.ALWAYS:
            continue
        for one in pod.containers:
            if one.terminated and not one.init and find_termination(pod, pods.main_container(replica)) is None:
                told = f" Container {one.name} of {pod.name} has ended (exit code {one.terminated.exit_code})"
                return (
                    f"{told}, and a pod is ready only while all its containers run; "
                    "make it an init container, or keep it running."
                )
    return ""


def _same_subject(old: str, new: str) -> bool:
    """Return whether only the words after `subject:` differ; those keep changing by themselves."""
    subject, colon, _ = new.partition(": ")
    return bool(colon) and old.startswith(f"{subject}: ")
