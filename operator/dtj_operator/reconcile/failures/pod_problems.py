"""What keeps pods from running that nobody of the job is to blame for, and that heals by itself.

Each is a reason of `Running=False`; the sentence keeps the words that were seen first, because
the kubelet and the scheduler never say the same thing twice. A refused write rests twice as long
after each refusal of its kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from dtj_operator.api.enums import Reason, Role
from dtj_operator.reconcile.state.snapshot import Trouble, TroubleKind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from dtj_operator.reconcile.state.replicas import Slot
    from dtj_operator.reconcile.state.scope import Draft
    from dtj_operator.reconcile.state.snapshot import Pod

FIRST_PAUSE = {
    TroubleKind.NAME_TAKEN: timedelta(seconds=5),
    TroubleKind.QUOTA_EXCEEDED: timedelta(seconds=5),
    TroubleKind.POD_REFUSED: timedelta(seconds=5),
    TroubleKind.NAMESPACE_TERMINATING: timedelta(seconds=30),
    TroubleKind.INVALID: timedelta(seconds=60),
}
LONGEST_PAUSE = timedelta(seconds=60)
ONE_TARGET_ONLY = frozenset({TroubleKind.NAME_TAKEN})
"""These stop one object; every other kind stops its peers too until it is tried again."""

PULL_FAILURES = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
CONFIG_FAILURES = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One thing in the way."""

    reason: Reason
    subject: str
    """`pod train-worker-1`: the beginning of the sentence."""
    words: str

    @property
    def sentence(self) -> str:
        """For people."""
        return f"{self.subject}: {self.words}"


def refused(
    kind: TroubleKind, target: str, message: str, *, generation: int, now: datetime, before: Trouble | None = None
) -> Trouble:
    """What is kept of a refusal; `before`: what was kept of the one before it."""
    if before is None or before.kind is not kind:
        pause = FIRST_PAUSE[kind]
        return Trouble(kind, target, message, now, pause, now + pause, generation)
    pause = min(LONGEST_PAUSE, 2 * before.pause)
    return Trouble(kind, target, message, before.since, pause, now + pause, generation)


def too_early(troubles: Iterable[Trouble], target: str, generation: int, now: datetime) -> bool:
    """Whether that object may not be created yet. A new generation may try at once."""
    return any(
        trouble.generation == generation
        and (trouble.target == target or trouble.kind not in ONE_TARGET_ONLY)
        and trouble.rests(now)
        for trouble in troubles
    )


def held_back(draft: Draft, slots: Iterable[Slot]) -> set[Slot]:
    """Those of the slots whose pods may not be created yet.

    A refusal holds back its like and what comes after: first what replaces a failed pod, which had its place before,
    then what is new, and last the evaluators, which training does not wait for.
    """
    troubles = draft.snapshot.troubles
    if not troubles:
        return set()
    failed = draft.fallen if draft.incident else set()
    turns = {draft.pod_name(slot): (slot.role is Role.EVALUATOR, slot not in failed) for slot in draft.slots}
    first = (False, False)

    def waits(name: str) -> bool:
        heard = (trouble for trouble in troubles if turns.get(trouble.target, first) <= turns[name])
        return too_early(heard, name, draft.job.generation, draft.now)

    return {slot for slot in slots if waits(draft.pod_name(slot))}


def unanswered(draft: Draft, reason: str) -> bool:
    """Whether that refusal was told by an operator before this one and its write has not been tried again.

    Refusals live in the memory of one process; what they say stands in status until the next answer.
    """
    return reason in set(TroubleKind) and untried(draft)


def untried(draft: Draft) -> bool:
    """Whether something is missing, and this operator has heard no refusal yet."""
    return (
        not draft.snapshot.troubles
        and draft.before.observed_generation == draft.job.generation
        and (
            draft.snapshot.service is None
            or any(slot not in draft.pods and slot not in draft.completed for slot in draft.slots)
        )
    )


def obstacle(draft: Draft) -> Obstacle | None:
    """The first thing in the way of those who train, and of the service."""
    aside = {draft.pod_name(slot) for slot in draft.slots if slot.role is Role.EVALUATOR}
    return _first(
        draft,
        [trouble for trouble in draft.snapshot.troubles if trouble.target not in aside],
        [slot for slot in draft.slots if slot.role is not Role.EVALUATOR],
    )


def obstacle_beside(draft: Draft) -> Obstacle | None:
    """The first thing in the way of the service or of an evaluator, where all those who train are up."""
    slots = [slot for slot in draft.slots if slot.role is Role.EVALUATOR]
    names = {draft.name, *map(draft.pod_name, slots)}
    return _first(draft, [trouble for trouble in draft.snapshot.troubles if trouble.target in names], slots)


def _first(draft: Draft, troubles: list[Trouble], slots: list[Slot]) -> Obstacle | None:
    for trouble in troubles:
        return Obstacle(Reason(trouble.kind.value), trouble.target, trouble.message)
    wanted = [slot for slot in slots if slot not in draft.completed]
    return _name_taken(draft, wanted) or _stuck(draft, wanted)


def _name_taken(draft: Draft, slots: list[Slot]) -> Obstacle | None:
    service = draft.snapshot.service
    if service is not None and service.owner_uid != draft.job.uid:
        return Obstacle(
            Reason.NAME_TAKEN,
            f"service {service.name}",
            "exists and is not this job's; delete it, or use another job name",
        )
    for slot in slots:
        pod = draft.others.get(draft.pod_name(slot)) if draft.others else None
        if pod is None:
            continue
        words = (
            "is still terminating; it belongs to an earlier job of this name"
            if pod.deleted_at
            else "exists and is not this job's; delete it, or use another job name"
        )
        return Obstacle(Reason.NAME_TAKEN, f"pod {pod.name}", words)
    return None


def _stuck(draft: Draft, slots: list[Slot]) -> Obstacle | None:
    for slot in slots:
        pod = draft.current(slot)
        if pod is not None and not pod.ready and pod.phase in {"Pending", "Running"}:
            found = _waiting(pod)
            if found:
                return found
    return None


def _waiting(pod: Pod) -> Obstacle | None:
    subject = f"pod {pod.name}"
    if pod.unschedulable:
        return Obstacle(Reason.UNSCHEDULABLE, subject, pod.unschedulable)
    for container in pod.containers:
        words = container.waiting_message or container.waiting_reason
        if container.waiting_reason in PULL_FAILURES:
            return Obstacle(Reason.IMAGE_PULL_FAILED, subject, words)
        if container.waiting_reason in CONFIG_FAILURES:
            return Obstacle(Reason.CONTAINER_CONFIG, subject, words)
    return None
