"""Recoveries in place: a training process failed, and the trainers went on without a new pod.

The operator has nothing to do. It counts what the success pod tells of, once for each of its pods, and says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import Cause, EventReason, Role
from dtj_operator.reconcile.failures.termination import find_termination
from dtj_operator.reconcile.state.replicas import Replica
from dtj_operator.reconcile.state.trainer_messages import parse_termination_message, read_recoveries

if TYPE_CHECKING:
    from dtj_operator.api.status import LastRecovery
    from dtj_operator.reconcile.state.replicas import Replicas
    from dtj_operator.reconcile.state.scope import ReconcileScope

WORDS: dict[str, str] = {
    Cause.KILLED: "was killed",
    Cause.OUT_OF_MEMORY: "ran out of memory",
    Cause.PEER_LOST: "lost a peer",
    Cause.PREEMPTED: "was preempted",
    Cause.STALLED: "stalled",
}
"""What happened, by cause; of all others it is said that they failed."""


def count_recoveries_in_place(scope: ReconcileScope) -> None:
    """Count the recoveries of which the success pod tells in /status, and in its termination message."""
    replica = scope.replicas.success_replica
    pod = scope.pods.owned.get(replica) if replica else None
    if replica is None or pod is None:
        return
    answered = scope.snapshot.recoveries
    if answered is not None and answered.pod_uid != pod.uid:
        answered = None
    end = find_termination(pod, scope.pods.main_container(replica))
    final = read_recoveries(parse_termination_message(end.message), pod.uid, scope.now) if end else None
    reported = final or answered
    new = scope.recovery.record_in_place(reported) if reported else 0
    if reported and new:
        scope.plan.note(EventReason.RECOVERED_IN_PLACE, _sentence(reported.last, new, scope.replicas))


def _sentence(last: LastRecovery, new: int, replicas: Replicas) -> str:
    who = replicas.pod_name(Replica(Role(last.role), last.index)) if last.role else "A pod"
    more = f" So far unreported: {new} recoveries, of which this is the last." if new > 1 else ""
    return f"{who} {WORDS.get(last.cause, 'failed')}; all train again after {last.seconds:.1f} s.{more}"
