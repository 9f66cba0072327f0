"""Restarts by the kubelet, under restartPolicy Always.

Nothing is acted upon, so the attempt stays; each restart seen counts, charged or free by the
same rules as any other end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.names import EventReason, Reason, RestartPolicy, Role, RuleAction
from dtj_operator.api.status import LastIncident, Root
from dtj_operator.domain.failure import Standing, cause_of, describe, rank_of, standing_of
from dtj_operator.domain.judgement import FREE_IN_A_ROW, describe_root, row
from dtj_operator.domain.progress import highest_step
from dtj_operator.domain.rules import matching_rule
from dtj_operator.domain.success import fail_job

if TYPE_CHECKING:
    from dtj_operator.domain.draft import Draft
    from dtj_operator.domain.slots import Slot
    from dtj_operator.domain.snapshot import Container, Pod
    from dtj_operator.domain.verdict import Verdict


def restarted_in_place(draft: Draft) -> Verdict | None:
    """Count what the kubelet has restarted since the last pass."""
    for slot in draft.slots:
        if draft.restart_policy(slot) is not RestartPolicy.ALWAYS:
            continue
        pod = draft.current(slot)
        container = _main(pod, draft.main(slot)) if pod else None
        if pod is None or container is None:
            continue
        new = container.restart_count - draft.in_place.get(slot, 0)
        if new <= 0:
            continue
        draft.in_place[slot] = container.restart_count
        draft.count_restart(slot.role, new)
        if slot.role is Role.EVALUATOR or draft.incident is not None:
            continue
        for _ in range(min(new, FREE_IN_A_ROW + draft.spec.failure_policy.max_restarts + 1)):
            verdict = _count(draft, slot, pod, container)
            if verdict is not None:
                return verdict
    return None


def _count(draft: Draft, slot: Slot, pod: Pod, container: Container) -> Verdict | None:
    end = container.last_terminated
    failure = describe(pod, end, node_lost=False)
    standing, cause = standing_of(failure), cause_of(failure)
    root = Root(
        role=slot.role,
        index=slot.index,
        node=pod.node,
        exit_code=failure.exit_code,
        cause=cause,
        evidence=failure.evidence,
        rank=rank_of(failure),
        standing=str(standing),
        rule=matching_rule(draft.spec.failure_policy.rules, slot.role, failure),
        step=max(0, failure.step),
        at=min(failure.at or draft.now, draft.now),
        message=failure.words,
    )
    so_far = row(draft, root)
    policy = draft.spec.failure_policy
    rule = policy.rules[root.rule] if root.rule is not None else None
    told = describe_root(draft, root)
    if rule is not None and rule.action is RuleAction.FAIL_JOB:
        name = rule.name or f"rules[{root.rule}]"
        return fail_job(
            draft, Reason.FAILED_BY_RULE, f"Failure rule {name} fails the job: {told}"
        )
    if rule is not None:
        charged = rule.action is not RuleAction.IGNORE and rule.count_towards_limit
    elif standing is Standing.UNPROVEN and failure.exit_code != 0:
        charged = so_far.unproven >= FREE_IN_A_ROW
    else:
        charged = standing is Standing.CHARGED
    if charged and draft.restarts.charged >= policy.max_restarts:
        return fail_job(
            draft,
            Reason.MAX_RESTARTS_EXCEEDED,
            f"All {policy.max_restarts} restarts of failurePolicy.maxRestarts are used: {told}",
        )
    before = draft.restarts
    draft.restarts = before.model_copy(
        update={
            "total": before.total + 1,
            "charged": before.charged + charged,
            "by_cause": before.by_cause | {cause: before.by_cause.get(cause, 0) + 1},
        }
    )
    draft.backoff = draft.backoff.model_copy(
        update={
            "free": so_far.free + (not charged),
            "unproven": so_far.unproven + (standing is Standing.UNPROVEN and bool(failure.exit_code)),
            "step": max(draft.backoff.step, highest_step(draft), root.step),
        }
    )
    draft.last_incident = LastIncident(
        time=root.at,
        cause=cause,
        role=slot.role,
        index=slot.index,
        node=pod.node,
        exit_code=failure.exit_code,
        message=failure.words,
        action="RestartInPlace",
    )
    if failure.exit_code:
        draft.warn(EventReason.POD_FAILED, f"{told}; the kubelet restarts it in place.")
    return None


def _main(pod: Pod, name: str) -> Container | None:
    return next((one for one in pod.containers if one.name == name), None)
