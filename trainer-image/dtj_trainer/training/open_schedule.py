"""The schedule of a training whose data may end at any batch, as that of a generator."""

import warnings
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from dtj_trainer.training.schedule import Schedule


class Ahead(NamedTuple):
    """The batches after a position."""

    batches: int
    """How many there are for certain."""
    ended: bool
    """Whether there are no more in this pass."""


class OpenSchedule:
    """A Schedule that looks ahead in the data before each call of steps, and ends with it.

    `look(number, batches)` returns what there is from batch `number` on; it waits until more than `batches` batches are
    there, or the first pass over the data has ended. Every process asks at the same steps, and gets the same answer.
    Data that `reads_once` ends the training; else the next epoch begins it again.
    """

    def __init__(self, schedule: Schedule, look: Callable[[int, int], Ahead], *, reads_once: bool) -> None:
        self._schedule = schedule
        self._look = look
        self._reads_once = reads_once
        self._ends = False
        """Whether the schedule knows the end of the data."""
        self._looked_until = 0
        """The step up to which there is data for certain."""

    def resume(self, batches: int) -> None:
        """Continue after so many batches, which have been read past: the end of the data may be known by now."""
        ahead = self._look(batches, 0)
        if ahead.ended:
            self._end_after(batches + ahead.batches)

    @property
    def batches(self) -> int | None:
        return self._schedule.batches

    @property
    def total(self) -> int:
        return self._schedule.total

    @property
    def known_total(self) -> int | None:
        return self._schedule.known_total

    @property
    def last_epoch(self) -> int:
        return self._schedule.last_epoch

    def epoch(self, step: int) -> int:
        return self._schedule.epoch(step)

    def step_in_epoch(self, step: int) -> int:
        return self._schedule.step_in_epoch(step)

    def batches_of(self, step: int) -> int:
        """Return how many batches the step after `step` steps takes; looks ahead."""
        self._steps_ahead(step)
        return self._schedule.batches_of(step)

    def batches_in(self, step: int, steps: int) -> int:
        return self._schedule.batches_in(step, steps)

    def next_end(self, step: int) -> int:
        """Return the step up to which one call may go: the epoch's end, or as far as there are batches."""
        ahead = self._steps_ahead(step)
        end = self._schedule.next_end(step)
        return end if ahead is None else min(end, step + ahead)

    def ends_epoch(self, step: int) -> bool:
        return self._schedule.ends_epoch(step)

    def _steps_ahead(self, step: int) -> int | None:
        """Return how many whole steps there are data for; None once its end is known."""
        if self._ends:
            return None
        each = self._schedule.accumulate
        if self._looked_until <= step:
            number = self._schedule.batches_before(step)
            ahead = self._look(number, each)
            if ahead.ended:
                self._end_after(number + ahead.batches)
                return None
            self._looked_until = step + ahead.batches // each
        return self._looked_until - step

    def _end_after(self, batches: int) -> None:
        """End each epoch, or the training, where the data ends, with a warning if more was asked for."""
        before, self._ends = self._schedule, True
        end = before.ending_after if self._reads_once else before.beginning_again_after
        self._schedule = end(batches)
        if before.known_total is None or self._schedule.total >= before.total:
            return
        what = "the training" if self._reads_once else "an epoch, so that it is short"
        warnings.warn(
            f"x ended after {batches} batches, and with it {what}; give data for {before.total} steps, or fewer "
            "epochs=, steps_per_epoch= or steps=",
            stacklevel=2,
        )


AnySchedule: TypeAlias = Schedule | OpenSchedule
