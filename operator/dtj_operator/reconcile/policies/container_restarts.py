"""Restarts by the kubelet, under restartPolicy Always.

Nothing is acted upon, so the attempt stays; each restart seen counts, charged or free by the
same rules as any other end, and an end with code 0 is always free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import Charge, EventReason, RestartPolicy, Role
from dtj_operator.reconcile.failures.failure import describe
from dtj_operator.reconcile.failures.restart_decision import FAIL_JOB, decide_restart, describe_root
from dtj_operator.reconcile.failures.root_cause import last_incident, root_cause, tally
from dtj_operator.reconcile.policies.completion import fail_job
from dtj_operator.reconcile.policies.running import IN_PLACE

if TYPE_CHECKING:
    from dtj_operator.api.persisted_state import RootCause
    from dtj_operator.reconcile.failures.restart_decision import RestartDecision
    from dtj_operator.reconcile.state.plan import Verdict
    from dtj_operator.reconcile.state.replicas import Replica
    from dtj_operator.reconcile.state.scope import ReconcileScope
    from dtj_operator.reconcile.state.snapshot import Container, Pod


COUNTED_AT_ONCE = 1000
"""The most restarts of one container that are counted in one pass: what a pod says must not keep everybody waiting."""


def count_container_restarts(scope: ReconcileScope) -> Verdict | None:
    """Count what the kubelet has restarted since the last pass."""
    for replica in scope.records:
        if scope.restart_policy(replica) is not RestartPolicy.ALWAYS:
            continue
        pod = scope.current(replica)
        container = _main(pod, scope.main(replica)) if pod else None
        if pod is None or container is None:
            continue
        new = container.restart_count - scope.container_restarts.get(replica, 0)
        if new <= 0:
            continue
        scope.container_restarts[replica] = container.restart_count
        scope.count_restart(replica.role, new)
        root = _root(scope, replica, pod, container)
        if root.exit_code:
            scope.plan.warn(EventReason.POD_FAILED, f"{describe_root(scope, root)}; the kubelet restarts it in place.")
        if replica.role is Role.EVALUATOR or _belongs_to_the_open_incident(scope, replica):
            continue
        verdict = _count(scope, root, new)
        if verdict is not None:
            return verdict
    return None


def _belongs_to_the_open_incident(scope: ReconcileScope, replica: Replica) -> bool:
    """As any other failure does, but for those of a pod that the incident's own action has made. The job is Running no
    sooner than this pod is: were its restarts free till then, one that can never start would be restarted for ever.
    """
    incident = scope.incident
    if incident is None:
        return False
    return incident.acted_attempt is None or scope.records[replica].attempt < incident.acted_attempt


def _count(scope: ReconcileScope, root: RootCause, times: int) -> Verdict | None:
    """Each has happened, so each counts, also the one that ends the job."""
    ending: RestartDecision | None = None
    for _ in range(min(times, COUNTED_AT_ONCE)):
        judged = decide_restart(scope, root, set())
        tally(scope, judged, root)
        ending = ending or (judged if judged.fails else None)
    scope.last_incident = last_incident(root, time=root.at, action=FAIL_JOB if ending else IN_PLACE)
    return fail_job(scope, ending.fails, ending.message) if ending and ending.fails else None


def _root(scope: ReconcileScope, replica: Replica, pod: Pod, container: Container) -> RootCause:
    root = root_cause(scope, replica, describe(pod, container.last_terminated, node_lost=False))
    if root.exit_code == 0:
        return root.model_copy(update={"charge": str(Charge.FREE), "rule": None})
    return root


def _main(pod: Pod, name: str) -> Container | None:
    return next((one for one in pod.containers if one.name == name), None)
