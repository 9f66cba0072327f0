"""The recovery time of a job after a disturbance, and the steps it lost. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from e2e.job_monitor import Sample


@dataclass(frozen=True)
class Recovery:
    """A measured recovery: `seconds` by pod, from the disturbance to its first new step; `lost_steps` are made twice.

    `leaving`: seconds until the old training processes of the remaining pods had ended, and, where a pod was deleted,
    had saved.
    """

    seconds: dict[str, float]
    lost_steps: int
    leaving: float = 0.0

    @property
    def all_train(self) -> float:
        """Return the seconds until all of them trained again."""
        return max(self.seconds.values())


def recovery(samples: Sequence[Sample], disturbed_at: float, pods: Iterable[str]) -> Recovery | None:
    """Compute the recovery of `pods` (names) from what happened at `disturbed_at`; None while one does not train yet.

    A pod trains again once a step is reported by a process that was started after the disturbance: `restarts` grew,
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
            leaving = max(leaving, next(s.at for s in after if is_new_process(before[-1], s)) - disturbed_at)
        first_steps.append(first.step or 0)
        lived_on = [sample.step or 0 for sample in after if not is_new_process(before[-1], sample)]
        reached = max([reached, *lived_on, *(sample.step or 0 for sample in before)])
    return Recovery(seconds, max(0, reached - min(first_steps) + 1), leaving)


def first_new_step(before: Sample, after: Iterable[Sample]) -> Sample | None:
    """Return the first report of a step that a new process made."""
    begun: Sample | None = None
    for sample in after:
        if not is_new_process(before, sample):
            continue
        if begun is None:
            begun = sample
            if sample.uid == before.uid:  # may still repeat what the old process reported
                continue
        if sample.step is not None and (sample.uid != before.uid or _reported(begun) != _reported(sample)):
            return sample
    return None


def is_new_process(before: Sample, sample: Sample) -> bool:
    return sample.uid != before.uid or sample.restarts > before.restarts


def _reported(sample: Sample) -> tuple[int | None, str]:
    return sample.step, sample.updated
