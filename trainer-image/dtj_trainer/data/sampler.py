"""The order in which each process reads the examples. Pure, over numbers.

A pass over the data is a line of positions 0..size-1. It is divided into contiguous parts, equal to within one
example, so that a process reads whole blocks of files but for the two at its ends. Within its part a process reads
windows of `shuffle` positions, each in an order of its own. All of it follows from the seed, so a place in the data is
two numbers: how many processes shared it, and how many examples they have read.

When the number of processes changes, what each of the old ones had left of the pass is laid end to end and divided
again: each remaining example is read once, by somebody.

After j passes of together x examples, process r of n has read floor((x + r) / n) of them. These add up to x over r
(Hermite's identity), so nobody is ever more than one example ahead, however many passes there are.
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
Line: TypeAlias = tuple[Any, ...]
"""Ranges and int64 arrays of positions, to be read one after the other."""


@dataclass(frozen=True, slots=True)
class Order:
    """In what order the examples of a pass come; `window` 0 = as they stand."""

    size: int
    window: int
    seed: int

    def windows(self, line: Line, read: int, *key: int) -> Iterator[Positions]:
        """The positions of `line` from its example `read` on, window by window, none of them empty."""
        length = self.window or PLAIN_WINDOW
        total = count(line)
        if read >= total:
            return
        for number in range(read // length, -(-total // length)):
            found = flat(cut(line, number * length, (number + 1) * length))
            if self.window:
                found = np.random.default_rng([self.seed, *key, number]).permutation(found)
            yield found[max(0, read - number * length) :]

    def left(self, line: Line, read: int, *key: int) -> Line:
        """What is left of `line` after `read` examples of it."""
        if not self.window or read >= count(line):
            return cut(line, read, count(line))
        opened = read % self.window
        whole = cut(line, read + (self.window - opened if opened else 0), count(line))
        return (next(self.windows(line, read, *key)), *whole) if opened else whole


PLAIN_WINDOW = 65_536
"""Positions that are looked up at once where nothing is shuffled."""


@dataclass(frozen=True, slots=True)
class Rest:
    """What is to be read: `line` of pass `number`, then all of each later pass."""

    number: int
    line: Line

    @classmethod
    def of_all(cls, order: Order) -> "Rest":
        return cls(0, (range(order.size),))

    def pass_line(self, order: Order, later: int) -> Line:
        return self.line if later == 0 else (range(order.size),)

    def examples(self, order: Order, passes: int) -> int:
        """Examples of the first `passes` passes."""
        return count(self.line) + (passes - 1) * order.size if passes else 0

    def passes_behind(self, order: Order, read: int) -> int:
        """Passes that are over when `read` examples have been read by all together."""
        first = count(self.line)
        return 0 if read < first else 1 + (read - first) // order.size


def part(rest: Rest, order: Order, later: int, workers: int, index: int) -> tuple[int, Line]:
    """Of pass `later` the part of one process, and how many examples it has read before it."""
    before, after = rest.examples(order, later), rest.examples(order, later + 1)
    lengths = [(after + r) // workers - (before + r) // workers for r in range(workers)]
    start = sum(lengths[:index])
    return (before + index) // workers, cut(rest.pass_line(order, later), start, start + lengths[index])


def rest_after(order: Order, history: Sequence[ReadSpan]) -> Rest:
    """What is left when the data was shared as `history` tells, the oldest first."""
    rest = Rest.of_all(order)
    for generation, dealt in enumerate(history):
        each = dealt.examples // dealt.workers
        later = rest.passes_behind(order, each * dealt.workers)
        number = rest.number + later
        left: list[Any] = []
        for index in range(dealt.workers):
            before, line = part(rest, order, later, dealt.workers, index)
            read = min(count(line), max(0, each - before))
            left.extend(order.left(line, read, number, generation, index))
        rest = Rest(number, tuple(left))
    return rest


def sample_positions(
    order: Order, history: Sequence[ReadSpan], workers: int, index: int, *, repeat: bool
) -> Iterator[tuple[int, Positions]]:
    """(pass, positions on its line) that process `index` of `workers` reads after `history`.

    Endless with `repeat`, else one pass.
    """
    *older, last = [*history] if history and history[-1].workers == workers else [*history, ReadSpan(workers, 0)]
    rest, generation = rest_after(order, older), len(older)
    each = last.examples // workers
    for later in itertools.count(rest.passes_behind(order, each * workers)):
        number = rest.number + later
        if number and not repeat:
            return
        before, line = part(rest, order, later, workers, index)
        for found in order.windows(line, max(0, each - before), number, generation, index):
            yield number, found


def even_part(size: int, workers: int, index: int) -> range:
    """The positions of one process where everything is read once, in order."""
    return range(size * index // workers, size * (index + 1) // workers)


def count(line: Line) -> int:
    return sum(len(span) for span in line)


def cut(line: Line, start: int, stop: int) -> Line:
    """Positions number `start` to `stop` of a line."""
    ends = accumulate((len(span) for span in line), initial=0)
    found = (span[max(0, start - a) : max(0, stop - a)] for span, (a, _) in zip(line, pairwise(ends), strict=True))
    return tuple(span for span in found if len(span))


def flat(line: Line) -> Positions:
    spans = [np.arange(s.start, s.stop, dtype=np.int64) if isinstance(s, range) else s for s in line]
    return spans[0] if len(spans) == 1 else np.concatenate(spans) if spans else np.empty(0, np.int64)


def gathered(found: Iterable[tuple[int, Positions]], least: int, most: int) -> Iterator[tuple[int, Positions]]:
    """Small windows of a pass put together, until they are `least` positions; large ones cut into at most `most`."""
    held: list[Positions] = []
    of = 0
    for number, positions in found:
        if held and number != of:
            yield of, np.concatenate(held)
            held = []
        of = number
        held.append(positions)
        if sum(map(len, held)) >= least:
            whole = np.concatenate(held)
            for piece in np.array_split(whole, -(-len(whole) // most)):
                yield of, piece
            held = []
    if held:
        yield of, np.concatenate(held)
