"""Finds the block and the rows of each position."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtj_trainer.data.sampler import Positions


@dataclass(frozen=True, slots=True)
class Rows:
    """A range of consecutive rows of a block."""

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
class SelectedRows:
    """A selection of rows of a block in any order, with their destinations in the array of examples."""

    block: int
    begin: int
    """The first of the rows."""
    rows: Any
    """Counted from `begin`."""
    destinations: Any
    """Indices in the array of examples, or a slice of it."""


@dataclass(frozen=True, slots=True)
class ScatteredRows:
    """A group of examples that have to be gathered from scattered rows of one or more blocks."""

    examples: int
    selected: Sequence[SelectedRows]

    @property
    def blocks(self) -> Sequence[int]:
        return [each.block for each in self.selected]


class BlockIndex:
    """The blocks of each pass in the order in which they are read; shuffled if `mixed`."""

    def __init__(self, rows: Sequence[int], seed: int, *, mixed: bool, same_each_pass: bool) -> None:
        self._rows = np.array(rows, np.int64)
        self._seed = seed
        self._mixed, self._same = mixed, same_each_pass
        self._known: dict[int, tuple[Any, Any]] = {}

    def find(self, number: int, positions: Positions) -> Sequence[Rows | ScatteredRows]:
        """Return where the examples at `positions` of pass `number` are.

        Consecutive ones are returned block by block, because then nothing has to be gathered.
        """
        order, starts = self._block_order(0 if self._same or not self._mixed else number)
        low, high = positions.min(), positions.max()
        first, last = np.searchsorted(starts, [low, high], side="right") - 1
        blocks = [(int(order[n]), int(starts[n]), int(self._rows[order[n]])) for n in range(first, last + 1)]
        if _are_consecutive(positions):
            return [Rows(block, max(low - s, 0), min(high + 1 - s, rows)) for block, s, rows in blocks]
        if first == last:
            return [ScatteredRows(len(positions), [_select(*blocks[0][:2], positions, slice(len(positions)))])]
        which = np.searchsorted(starts[first : last + 1], positions, side="right") - 1
        destinations = [np.flatnonzero(which == number) for number in range(len(blocks))]
        selected = [_select(*blocks[n][:2], positions[each], each) for n, each in enumerate(destinations) if len(each)]
        return [ScatteredRows(len(positions), selected)]

    def _block_order(self, number: int) -> tuple[Any, Any]:
        if number not in self._known:
            blocks = len(self._rows)
            order = np.arange(blocks)
            if self._mixed:
                order = np.random.default_rng([self._seed, number]).permutation(blocks)
            rows = self._rows[order]
            self._known = {number: (order, np.cumsum(rows) - rows)}
        return self._known[number]


def _are_consecutive(positions: Positions) -> bool:
    return bool(positions[-1] - positions[0] == len(positions) - 1 and (np.diff(positions) == 1).all())


def _select(block: int, start: int, positions: Positions, destinations: Any) -> SelectedRows:
    low = positions.min()
    return SelectedRows(block, int(low) - start, positions - low, destinations)
