"""Deletions when a job is finished or suspended, and the TTL after which the job itself is deleted."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.api.enums import CleanPodPolicy, ConditionType, Role
from dtj_operator.reconcile.state.snapshot import TERMINAL

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.scope import ReconcileScope
    from dtj_operator.reconcile.state.snapshot import Pod


def clean_up(scope: ReconcileScope) -> None:
    """Delete what a finished or suspended job must not keep."""
    if scope.conditions.finished:
        waiting = _evaluators_waited_for(scope)
        _apply_clean_pod_policy(scope, waiting)
        _apply_ttl(scope, waiting)
    elif scope.spec.suspend and scope.conditions.is_true(ConditionType.SUSPENDED) and not scope.job.problem:
        for pod in _own_pods(scope):
            if pod.phase not in TERMINAL:
                scope.delete_pod(pod)
        _delete_service(scope)


def _apply_clean_pod_policy(scope: ReconcileScope, waiting: list[Pod]) -> None:
    policy = scope.spec.clean_pod_policy
    if policy is CleanPodPolicy.NONE:
        return
    for pod in _own_pods(scope):
        if pod not in waiting and (policy is CleanPodPolicy.ALL or pod.phase not in TERMINAL):
            scope.delete_pod(pod)
    if policy is CleanPodPolicy.ALL and not waiting:
        _delete_service(scope)


def _evaluators_waited_for(scope: ReconcileScope) -> list[Pod]:
    """Return the evaluators of a succeeded job that may still end by themselves."""
    seconds, completion = scope.spec.success_policy.wait_for_evaluator_seconds, scope.lifecycle.completion_time
    if not (seconds and completion and scope.conditions.is_true(ConditionType.SUCCEEDED)):
        return []
    unfinished = [
        pod
        for replica, pod in scope.pods.owned.items()
        if replica.role is Role.EVALUATOR and replica not in scope.replicas.completed and pod.phase not in TERMINAL
    ]
    ends = completion + timedelta(seconds=seconds)
    if not unfinished or scope.now >= ends:
        return []
    scope.plan.requeue_at(ends)
    return unfinished


def _apply_ttl(scope: ReconcileScope, waiting: list[Pod]) -> None:
    """Delete the job itself `ttlSecondsAfterFinished` after its end, but not while it is suspended and not while an
    evaluator is waited for.
    """
    seconds, completion = scope.spec.ttl_seconds_after_finished, scope.lifecycle.completion_time
    if seconds is None or completion is None or scope.spec.suspend or waiting:
        return
    ends = completion + timedelta(seconds=seconds)
    if scope.now >= ends:
        scope.plan.delete_job(scope.job)
    else:
        scope.plan.requeue_at(ends)


def _own_pods(scope: ReconcileScope) -> list[Pod]:
    return [*scope.pods.owned.values(), *scope.pods.misnamed]


def _delete_service(scope: ReconcileScope) -> None:
    service = scope.snapshot.service
    if service and service.owner_uid == scope.job.uid and service.deleted_at is None:
        scope.plan.delete_service(service)
