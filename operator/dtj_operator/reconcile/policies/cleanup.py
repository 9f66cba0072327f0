"""What goes when a job is finished or suspended, and when the job itself goes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.api.enums import CleanPodPolicy, ConditionType, Role
from dtj_operator.reconcile.state.snapshot import TERMINAL

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.scope import ReconcileScope
    from dtj_operator.reconcile.state.snapshot import Pod


def clean_up(scope: ReconcileScope) -> None:
    """Remove what a finished or suspended job must not keep."""
    if scope.conditions.finished:
        _after_the_end(scope)
    elif scope.spec.suspend and not scope.job.problem:
        for pod in _own_pods(scope):
            if pod.phase not in TERMINAL:
                scope.remove(pod)
        _remove_service(scope)


def _after_the_end(scope: ReconcileScope) -> None:
    policy = scope.spec.clean_pod_policy
    waiting = _evaluators_waited_for(scope)
    if policy is not CleanPodPolicy.NONE:
        for pod in _own_pods(scope):
            if pod not in waiting and (policy is CleanPodPolicy.ALL or pod.phase not in TERMINAL):
                scope.remove(pod)
        if policy is CleanPodPolicy.ALL and not waiting:
            _remove_service(scope)
    _expire(scope, waiting)


def _evaluators_waited_for(scope: ReconcileScope) -> list[Pod]:
    """Evaluators of a succeeded job that may still end by themselves."""
    seconds = scope.spec.success_policy.wait_for_evaluator_seconds
    if not (seconds and scope.completion_time and scope.conditions.is_true(ConditionType.SUCCEEDED)):
        return []
    unfinished = [
        pod
        for replica, pod in scope.pods.items()
        if replica.role is Role.EVALUATOR and replica not in scope.completed and pod.phase not in TERMINAL
    ]
    ends = scope.completion_time + timedelta(seconds=seconds)
    if not unfinished or scope.now >= ends:
        return []
    scope.plan.requeue_at(ends)
    return unfinished


def _expire(scope: ReconcileScope, waiting: list[Pod]) -> None:
    """The job itself goes `ttlSecondsAfterFinished` after its end, but not while suspended and
    not while an evaluator is waited for.
    """
    seconds = scope.spec.ttl_seconds_after_finished
    if seconds is None or scope.completion_time is None or scope.spec.suspend or waiting:
        return
    ends = scope.completion_time + timedelta(seconds=seconds)
    if scope.now >= ends:
        scope.plan.delete_job(scope.job)
    else:
        scope.plan.requeue_at(ends)


def _own_pods(scope: ReconcileScope) -> list[Pod]:
    return [*scope.pods.values(), *scope.misnamed]


def _remove_service(scope: ReconcileScope) -> None:
    service = scope.snapshot.service
    if service and service.owner_uid == scope.job.uid and service.deleted_at is None:
        scope.plan.delete_service(service)
