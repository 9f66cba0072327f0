"""Restarts by the kubelet, under restartPolicy Always.

Nothing is acted upon, so the attempt stays; each restart seen counts, charged or free by the
same rules as any other end, and an end with code 0 is always free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import Charge, RestartPolicy, Role
from dtj_operator.reconcile.failures.failure import failure_of
from dtj_operator.reconcile.failures.restart_decision import FAIL_JOB, decide_restart
from dtj_operator.reconcile.failures.root_cause import describe_root_cause, last_incident, root_cause
from dtj_operator.reconcile.failures.termination import find_container
from dtj_operator.reconcile.policies.completion import fail_job
from dtj_operator.reconcile.policies.failure_policy import match_rule, matches_later
from dtj_operator.reconcile.state.recovery import RESTART_IN_PLACE

if TYPE_CHECKING:
    from dtj_operator.api.persisted_state import RootCause
    from dtj_operator.reconcile.state.plan import Verdict
    from dtj_operator.reconcile.state.recovery import RestartDecision
    from dtj_operator.reconcile.state.replicas import Replica
    from dtj_operator.reconcile.state.scope import ReconcileScope
    from dtj_operator.reconcile.state.snapshot import Container, Pod


COUNTED_AT_ONCE = 1000
"""The most restarts of one container that are counted in one pass: what a pod says must not keep everybody waiting."""


def count_container_restarts(scope: ReconcileScope) -> Verdict | None:
    """Count what the kubelet has restarted since the last pass."""
    replicas = scope.replicas
    for replica in list(replicas.records):
        if replicas.restart_policy(replica) is not RestartPolicy.ALWAYS:
            continue
        pod = scope.pods.current(replica)
        container = find_container(pod, scope.pods.main_container(replica)) if pod else None
        if pod is None or container is None:
            continue
        if matches_later(scope):
            return None
        new = replicas.count_container_restarts(replica, container.restart_count)
        if not new:
            continue
        scope.recovery.count_replaced(replica.role, new)
        root = _root_cause(scope, replica, pod, container)
        if root.exit_code:
            told = describe_root_cause(root, replicas)
            scope.plan.report_failed_pod(root.role, root.cause, f"{told}; the kubelet restarts it in place.")
        if replica.role is Role.EVALUATOR or _belongs_to_incident(scope, replica):
            continue
        verdict = _charge(scope, root, new)
        if verdict is not None:
            return verdict
    return None


def _belongs_to_incident(scope: ReconcileScope, replica: Replica) -> bool:
    """Return whether the restart belongs to the open incident, as other failures do, and is not counted again.

    Those of a pod that the incident's own action has made do not. The job is Running no sooner than this pod is: were
    its restarts free till then, one that can never start would be restarted without end.
    """
    return scope.recovery.waits_to_act or scope.recovery.outlived(scope.replicas.records[replica])


def _charge(scope: ReconcileScope, root: RootCause, times: int) -> Verdict | None:
    """Count each restart, as each has happened, also the one that ends the job."""
    policy, recovery, step = scope.spec.failure_policy, scope.recovery, scope.reported_step
    end: RestartDecision | None = None
    for _ in range(min(times, COUNTED_AT_ONCE)):
        decision = decide_restart(policy, root, (), step, recovery, scope.replicas, scope.pods)
        recovery.record(root, decision, step)
        end = end or (decision if decision.job_fails else None)
    recovery.remember(last_incident(root, time=root.at, action=FAIL_JOB if end else RESTART_IN_PLACE))
    return fail_job(scope, end.job_fails, end.message) if end and end.job_fails else None


def _root_cause(scope: ReconcileScope, replica: Replica, pod: Pod, container: Container) -> RootCause:
    failure = failure_of(pod, container.last_terminated, container.name, node_lost=False)
    root = root_cause(replica, failure, scope.now, match_rule(scope, replica.role, failure))
    if root.exit_code == 0:
        return root.model_copy(update={"charge": str(Charge.FREE), "rule": None})
    return root
