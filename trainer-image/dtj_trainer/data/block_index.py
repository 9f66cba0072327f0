"""Where the examples of a pass are: in which block, in which of its rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtj_trainer.data.sampler import Positions


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a block that follow one another."""

    block: int
    begin: int
    end: int

    @property
    def examples(self) -> int:
        return self.end - self.begin

    @property
    def blocks(self) -> Sequence[int]:
        return (self.block,)


@dataclass(frozen=True, slots=True)
class Picked:
    """Rows of a block in any order, and where they go among the examples they were asked for with."""

    block: int
    begin: int
    """The first of the rows."""
    rows: Any
    """Counted from `begin`."""
    places: Any
    """Numbers, or a slice."""


@dataclass(frozen=True, slots=True)
class Mixed:
    """Examples that have to be gathered."""

    examples: int
    picked: Sequence[Picked]

    @property
    def blocks(self) -> Sequence[int]:
        return [each.block for each in self.picked]


class BlockIndex:
    """The blocks of a pass, one after the other, in an order of its own if `mixed`."""

    def __init__(self, rows: Sequence[int], seed: int, *, mixed: bool, same_each_pass: bool) -> None:
        self._rows = np.array(rows, np.int64)
        self._seed = seed
        self._mixed, self._same = mixed, same_each_pass
        self._known: dict[int, tuple[Any, Any]] = {}

    def find(self, number: int, positions: Positions) -> Sequence[Rows | Mixed]:
        """The examples at `positions` on the line of pass `number`: block by block where they follow one another,
        because then nothing has to be gathered.
        """
        order, starts = self._pass(0 if self._same or not self._mixed else number)
        low, high = positions.min(), positions.max()
        first, last = np.searchsorted(starts, [low, high], side="right") - 1
        blocks = [(int(order[n]), int(starts[n]), int(self._rows[order[n]])) for n in range(first, last + 1)]
        if _follow_one_another(positions):
            return [Rows(block, max(low - s, 0), min(high + 1 - s, rows)) for block, s, rows in blocks]
        if first == last:
            return [Mixed(len(positions), [_picked(*blocks[0][:2], positions, slice(len(positions)))])]
        which = np.searchsorted(starts[first : last + 1], positions, side="right") - 1
        places = [np.flatnonzero(which == number) for number in range(len(blocks))]
        picked = [_picked(*blocks[n][:2], positions[each], each) for n, each in enumerate(places) if len(each)]
        return [Mixed(len(positions), picked)]

    def _pass(self, number: int) -> tuple[Any, Any]:
        if number not in self._known:
            blocks = len(self._rows)
            order = np.arange(blocks)
            if self._mixed:
                order = np.random.default_rng([self._seed, number]).permutation(blocks)
            rows = self._rows[order]
            self._known = {number: (order, np.cumsum(rows) - rows)}
        return self._known[number]


def _follow_one_another(positions: Positions) -> bool:
    return bool(positions[-1] - positions[0] == len(positions) - 1 and (np.diff(positions) == 1).all())


def _picked(block: int, start: int, positions: Positions, places: Any) -> Picked:
    low = positions.min()
    return Picked(block, int(low) - start, positions - low, places)
