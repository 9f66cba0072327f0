"""What is seen for the first time, and must never be forgotten.

A pod that has been seen and is gone is a failure; a replica that is done is never run again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.api.enums import RestartPolicy, Role
from dtj_operator.api.wire_model import whole_second
from dtj_operator.reconcile.failures.termination import succeeded
from dtj_operator.reconcile.state.replicas import ReplicaRecord

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.replicas import Replica
    from dtj_operator.reconcile.state.scope import Draft


def track_pods(draft: Draft) -> None:
    """Take in which pods exist and which are done.

    Under Always nothing is ever done: the kubelet starts an ended container again, and calls a pod Succeeded only if
    it was deleted and all its containers ended with 0 then.
    """
    _take_progress(draft)
    for replica, record in list(draft.records.items()):
        pod = draft.current(replica)
        if pod is None:
            continue
        if not record.observed or pod.attempt > record.attempt:
            draft.records[replica] = ReplicaRecord(pod.attempt, observed=True)
            draft.attempt = max(draft.attempt, pod.attempt)
        if (
            replica not in draft.completed
            and not draft.serves(replica)
            and succeeded(pod, draft.main(replica))
            and not (draft.finished and pod.deleted_at)
            and not _fallen(draft, replica)
            and draft.restart_policy(replica) is not RestartPolicy.ALWAYS
        ):
            draft.completed.add(replica)
    if draft.snapshot.made and not draft.finished:
        _remember_made(draft)
    if draft.first_pod_time is None and draft.start_time:
        # Pods of before a suspension may still terminate, and keep those of this start from being created.
        created = [pod.created_at for replica in draft.records if (pod := draft.current(replica))]
        if created:
            # The API server's clock, which may be ahead of ours: what is seen was created by now.
            draft.first_pod_time = whole_second(max(min(*created, draft.now), draft.start_time))


def _fallen(draft: Draft, replica: Replica) -> bool:
    """Whether the replica's pod has failed and waits to be replaced: what it ends with after that is not heard."""
    if replica.role is Role.EVALUATOR:
        known = draft.evaluators.get(replica.index)
        return known is not None and known.due is not None
    return draft.waits_to_act and replica in draft.failed


def _remember_made(draft: Draft) -> None:
    """A pod that was made and is gone before a pass could write down that it existed has been seen all the same."""
    for replica, record in draft.records.items():
        attempt = draft.snapshot.made.get(draft.pod_name(replica))
        if attempt is None or replica.role is Role.EVALUATOR or replica in draft.pods:
            continue
        if not record.observed and attempt >= record.attempt:
            draft.records[replica] = ReplicaRecord(attempt, observed=True)


EVERY = timedelta(seconds=30)
"""The shortest time between two writes of progress alone."""


def _take_progress(draft: Draft) -> None:
    """Take over the latest answer of the success pod, at most every 30 s."""
    latest, known = draft.snapshot.progress, draft.progress
    if latest is None or latest.updated_at is None:
        return
    if known and known.updated_at and known.updated_at <= draft.now and latest.updated_at < known.updated_at + EVERY:
        return
    draft.progress = latest
