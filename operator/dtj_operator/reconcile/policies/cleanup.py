"""What goes when a job is finished or suspended, and when the job itself goes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.api.enums import CleanPodPolicy, ConditionType, Role
from dtj_operator.reconcile.state.plan import DeleteJob, DeleteService
from dtj_operator.reconcile.state.snapshot import TERMINAL

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.scope import Draft
    from dtj_operator.reconcile.state.snapshot import Pod


def clean_up(draft: Draft) -> None:
    """Remove what a finished or suspended job must not keep."""
    if draft.finished:
        _after_the_end(draft)
    elif draft.spec.suspend and not draft.job.problem:
        for pod in _own_pods(draft):
            if pod.phase not in TERMINAL:
                draft.remove(pod)
        _remove_service(draft)


def _after_the_end(draft: Draft) -> None:
    policy = draft.spec.clean_pod_policy
    waiting = _evaluators_waited_for(draft)
    if policy is not CleanPodPolicy.NONE:
        for pod in _own_pods(draft):
            if pod not in waiting and (policy is CleanPodPolicy.ALL or pod.phase not in TERMINAL):
                draft.remove(pod)
        if policy is CleanPodPolicy.ALL and not waiting:
            _remove_service(draft)
    _expire(draft, waiting)


def _evaluators_waited_for(draft: Draft) -> list[Pod]:
    """Evaluators of a succeeded job that may still end by themselves."""
    seconds = draft.spec.success_policy.wait_for_evaluator_seconds
    if not (seconds and draft.completion_time and draft.holds(ConditionType.SUCCEEDED)):
        return []
    unfinished = [
        pod
        for replica, pod in draft.pods.items()
        if replica.role is Role.EVALUATOR and replica not in draft.completed and pod.phase not in TERMINAL
    ]
    ends = draft.completion_time + timedelta(seconds=seconds)
    if not unfinished or draft.now >= ends:
        return []
    draft.check_at(ends)
    return unfinished


def _expire(draft: Draft, waiting: list[Pod]) -> None:
    """The job itself goes `ttlSecondsAfterFinished` after its end, but not while suspended and
    not while an evaluator is waited for.
    """
    seconds = draft.spec.ttl_seconds_after_finished
    if seconds is None or draft.completion_time is None or draft.spec.suspend or waiting:
        return
    ends = draft.completion_time + timedelta(seconds=seconds)
    if draft.now >= ends:
        draft.actions.append(DeleteJob(draft.job.uid))
    else:
        draft.check_at(ends)


def _own_pods(draft: Draft) -> list[Pod]:
    return [*draft.pods.values(), *draft.misnamed]


def _remove_service(draft: Draft) -> None:
    service = draft.snapshot.service
    if service and service.owner_uid == draft.job.uid and service.deleted_at is None:
        draft.actions.append(DeleteService(service.uid))
