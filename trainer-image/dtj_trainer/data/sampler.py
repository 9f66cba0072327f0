"""The order in which each process reads the examples. Pure, over numbers.

A pass over the data reads positions 0 to size-1. They are divided into contiguous shares, equal to within one example,
so that a process reads whole blocks of files except at its two ends. Within its share a process reads windows of
`shuffle` positions, and shuffles each. All of it follows from the seed, so a position in the data is two numbers: how
many processes shared the data, and how many examples they have read.

When the number of processes changes, the examples that the old processes have not read in this pass are put one after
the other and divided again: each remaining example is read once, by one process.

After j passes of together x examples, process r of n has read floor((x + r) / n) of them. These add up to x over r
(Hermite's identity), so no process is ever more than one example ahead, however many passes there are.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np

from dtj_trainer.data.position import ReadSpan

Positions: TypeAlias = Any
"""int64 array [examples]."""
Ranges: TypeAlias = tuple[Any, ...]
"""Python ranges and int64 arrays of positions, read one after the other."""


@dataclass(frozen=True, slots=True)
class Order:
    """The order of the examples in a pass; with `window` 0 they are not shuffled."""

    size: int
    window: int
    seed: int

    def windows(self, ranges: Ranges, read: int, *key: int) -> Iterator[Positions]:
        """Yield the positions of `ranges` from its example `read` on, window by window; no window is empty."""
        length = self.window or UNSHUFFLED_WINDOW
        total = total_length(ranges)
        if read >= total:
            return
        for number in range(read // length, -(-total // length)):
            positions = to_array(slice_ranges(ranges, number * length, (number + 1) * length))
            if self.window:
                positions = np.random.default_rng([self.seed, *key, number]).permutation(positions)
            yield positions[max(0, read - number * length) :]

    def remaining_ranges(self, ranges: Ranges, read: int, *key: int) -> Ranges:
        """Return what remains of `ranges` after its first `read` examples."""
        if not self.window or read >= total_length(ranges):
            return slice_ranges(ranges, read, total_length(ranges))
        begun = read % self.window
        whole = slice_ranges(ranges, read + (self.window - begun if begun else 0), total_length(ranges))
        return (next(self.windows(ranges, read, *key)), *whole) if begun else whole


UNSHUFFLED_WINDOW = 65_536
"""Positions that are looked up at once without shuffling."""


@dataclass(frozen=True, slots=True)
class Remaining:
    """The examples that remain: `ranges` of pass `number`, then all of each later pass."""

    number: int
    ranges: Ranges

    @classmethod
    def all_examples(cls, order: Order) -> "Remaining":
        """Return all passes from the first on."""
        return cls(0, (range(order.size),))

    def pass_ranges(self, order: Order, offset: int) -> Ranges:
        """Return the ranges of pass `number + offset`."""
        return self.ranges if offset == 0 else (range(order.size),)

    def examples(self, order: Order, passes: int) -> int:
        """Return the number of examples in the first `passes` passes."""
        return total_length(self.ranges) + (passes - 1) * order.size if passes else 0

    def completed_passes(self, order: Order, read: int) -> int:
        """Return how many passes are complete after all processes together have read `read` examples."""
        first = total_length(self.ranges)
        return 0 if read < first else 1 + (read - first) // order.size


def worker_share(remaining: Remaining, order: Order, offset: int, workers: int, index: int) -> tuple[int, Ranges]:
    """Return how many examples a process has read before a pass, and its share of that pass."""
    before, after = remaining.examples(order, offset), remaining.examples(order, offset + 1)
    lengths = [(after + r) // workers - (before + r) // workers for r in range(workers)]
    start = sum(lengths[:index])
    share = slice_ranges(remaining.pass_ranges(order, offset), start, start + lengths[index])
    return (before + index) // workers, share


def remaining_after(order: Order, history: Sequence[ReadSpan]) -> Remaining:
    """Return the examples that remain after `history`, the oldest span first."""
    remaining = Remaining.all_examples(order)
    for generation, span in enumerate(history):
        each = span.examples // span.workers
        offset = remaining.completed_passes(order, each * span.workers)
        number = remaining.number + offset
        unread: list[Any] = []
        for index in range(span.workers):
            before, ranges = worker_share(remaining, order, offset, span.workers, index)
            read = min(total_length(ranges), max(0, each - before))
            unread.extend(order.remaining_ranges(ranges, read, number, generation, index))
        remaining = Remaining(number, tuple(unread))
    return remaining


def sample_positions(
    order: Order, history: Sequence[ReadSpan], workers: int, index: int, *, repeat: bool
) -> Iterator[tuple[int, Positions]]:
    """Yield (pass, positions) that process `index` of `workers` reads after `history`.

    Without end if `repeat`, else one pass.
    """
    *older, last = [*history] if history and history[-1].workers == workers else [*history, ReadSpan(workers, 0)]
    remaining, generation = remaining_after(order, older), len(older)
    each = last.examples // workers
    for offset in itertools.count(remaining.completed_passes(order, each * workers)):
        number = remaining.number + offset
        if number and not repeat:
            return
        before, ranges = worker_share(remaining, order, offset, workers, index)
        for positions in order.windows(ranges, max(0, each - before), number, generation, index):
            yield number, positions


def even_share(size: int, workers: int, index: int) -> range:
    """Return the positions of one process when each example is read once, in order."""
    return range(size * index // workers, size * (index + 1) // workers)


def total_length(ranges: Ranges) -> int:
    """Return the number of positions."""
    return sum(len(span) for span in ranges)


def slice_ranges(ranges: Ranges, start: int, stop: int) -> Ranges:
    """Return positions number `start` to `stop` of `ranges`."""
    ends = accumulate((len(span) for span in ranges), initial=0)
    spans = (span[max(0, start - a) : max(0, stop - a)] for span, (a, _) in zip(ranges, pairwise(ends), strict=True))
    return tuple(span for span in spans if len(span))


def to_array(ranges: Ranges) -> Positions:
    """Return all positions as one array."""
    spans = [np.arange(s.start, s.stop, dtype=np.int64) if isinstance(s, range) else s for s in ranges]
    return spans[0] if len(spans) == 1 else np.concatenate(spans) if spans else np.empty(0, np.int64)


def merge_windows(windows: Iterable[tuple[int, Positions]], least: int, most: int) -> Iterator[tuple[int, Positions]]:
    """Yield small windows of a pass merged to at least `least` positions, large ones split to at most `most`."""
    pending: list[Positions] = []
    pending_pass = 0
    for number, positions in windows:
        if pending and number != pending_pass:
            yield pending_pass, np.concatenate(pending)
            pending = []
        pending_pass = number
        pending.append(positions)
        if sum(map(len, pending)) >= least:
            whole = np.concatenate(pending)
            for piece in np.array_split(whole, -(-len(whole) // most)):
                yield pending_pass, piece
            pending = []
    if pending:
        yield pending_pass, np.concatenate(pending)
