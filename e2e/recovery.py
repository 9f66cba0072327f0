"""How long a job took to train again after a disturbance, and what work it cost. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from e2e.job_monitor import Sample


@dataclass(frozen=True)
class Recovery:
    """`seconds` by pod, from the disturbance to the pod's first new step; `lost_steps` were trained twice.

    `leaving`: seconds until the old children of the pods that stay were gone; where a pod is deleted they have saved.
    """

    seconds: dict[str, float]
    lost_steps: int
    leaving: float = 0.0

    @property
    def all_train(self) -> float:
        """Seconds until the last of them trained again."""
        return max(self.seconds.values())


def recovery(samples: Sequence[Sample], disturbed_at: float, pods: Iterable[str]) -> Recovery | None:
    """The recovery of `pods` (names) from what happened at `disturbed_at`; None while one does not train yet.

    A pod trains again once a step is reported by a child that was forked after the disturbance: `restarts` grew,
    or the pod is another one, and the report changed since. Each number is late by at most one polling interval.
    """
    seconds: dict[str, float] = {}
    first_steps: list[int] = []
    reached, leaving = 0, 0.0
    for pod in pods:
        of_pod = [sample for sample in samples if sample.pod == pod]
        before = [sample for sample in of_pod if sample.at <= disturbed_at]
        after = [sample for sample in of_pod if sample.at > disturbed_at]
        if not before:
            return None
        first = first_new_step(before[-1], after)
        if first is None:
            return None
        seconds[pod] = first.at - disturbed_at
        if first.uid == before[-1].uid:
            leaving = max(leaving, next(s.at for s in after if is_new_child(before[-1], s)) - disturbed_at)
        first_steps.append(first.step or 0)
        lived_on = [sample.step or 0 for sample in after if not is_new_child(before[-1], sample)]
        reached = max([reached, *lived_on, *(sample.step or 0 for sample in before)])
    return Recovery(seconds, max(0, reached - min(first_steps) + 1), leaving)


def first_new_step(before: Sample, after: Iterable[Sample]) -> Sample | None:
    """The first report of a step that a new child made."""
    begun: Sample | None = None
    for sample in after:
        if not is_new_child(before, sample):
            continue
        if begun is None:
            begun = sample
            if sample.uid == before.uid:  # may still repeat what the old child said
                continue
        if sample.step is not None and (sample.uid != before.uid or _reported(begun) != _reported(sample)):
            return sample
    return None


def is_new_child(before: Sample, sample: Sample) -> bool:
    return sample.uid != before.uid or sample.restarts > before.restarts


def _reported(sample: Sample) -> tuple[int | None, str]:
    return sample.step, sample.updated
