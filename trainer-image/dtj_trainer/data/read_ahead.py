"""Blocks of a table, read by threads before they are needed, and taken apart into chunks of examples."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtj_trainer.data.deal import Positions, gathered
from dtj_trainer.data.table import Table

CHUNK, CHUNK_BYTES = 16_384, 16 << 20
"""Examples that are looked up at once, about, and bytes; whichever is less. What is gathered is to stay in a
processor's cache until TensorFlow takes it.
"""
THREADS = 2
BYTES_AHEAD = 256 << 20
"""Blocks that may wait in memory beside the one being read from; of larger ones, one waits."""
BLOCKS_AHEAD = 4
CHUNKS_AHEAD = 256


class Places:
    """Where the positions of a pass are: its blocks stand one after the other, in an order of its own if `mixed`."""

    def __init__(self, rows: Sequence[int], seed: int, *, mixed: bool, same_each_pass: bool) -> None:
        self._rows = np.array(rows, np.int64)
        self._seed = seed
        self._mixed, self._same = mixed, same_each_pass
        self._known: dict[int, tuple[Any, Any]] = {}

    def find(self, number: int, positions: Positions) -> "list[_Chunk]":
        """The examples at `positions` on the line of pass `number`: at once, or block by block where they follow one
        another, because then nothing has to be gathered.
        """
        order, starts = self._pass(0 if self._same or not self._mixed else number)
        first, last = np.searchsorted(starts, [positions.min(), positions.max()], side="right") - 1
        if _follow_one_another(positions):
            begin, end = int(positions[0]), int(positions[-1]) + 1
            spans = [(int(starts[n]), int(self._rows[order[n]]), int(order[n])) for n in range(first, last + 1)]
            return [_Chunk(None, slice(max(begin - s, 0), min(end - s, rows)), [block]) for s, rows, block in spans]
        if first == last:
            return [_Chunk(None, positions - starts[first], [int(order[first])])]
        which = np.searchsorted(starts[first : last + 1], positions, side="right") - 1 + first
        blocks = order[which]
        return [_Chunk(blocks, positions - starts[which], np.flatnonzero(np.bincount(blocks)).tolist())]

    def _pass(self, number: int) -> tuple[Any, Any]:
        if number not in self._known:
            blocks = len(self._rows)
            order = np.arange(blocks)
            if self._mixed:
                order = np.random.default_rng([self._seed, number]).permutation(blocks)
            rows = self._rows[order]
            self._known = {number: (order, np.cumsum(rows) - rows)}
        return self._known[number]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Examples: block and row of each, and which blocks these are."""

    blocks: Any
    """None where it is one block."""
    rows: Any
    """Numbers, or a slice of one block."""
    needs: list[int]


def chunks(
    table: Table, places: Places, found: Iterator[tuple[int, Positions]], *, keep: bool
) -> Iterator[Mapping[str, Any]]:
    """Arrays of examples by column, in the order of `found`; `keep` holds on to all blocks that were read once.

    Memory: the blocks of one chunk, and ahead of it at most BLOCKS_AHEAD, or BYTES_AHEAD of them, whichever is less.
    """
    shelf = _Shelf(table, keep=keep)
    ahead: deque[_Chunk] = deque()
    row = max(1, sum(block.size for block in table.blocks) // max(1, table.size))
    length = max(1, min(CHUNK, CHUNK_BYTES // row))
    try:
        for number, positions in gathered(found, length):
            for chunk in places.find(number, positions):
                ahead.append(chunk)
                shelf.fetch(chunk.needs)
                if len(ahead) < CHUNKS_AHEAD and not shelf.is_full(ahead[0].needs):
                    continue
                yield _take(ahead[0], shelf)
                ahead.popleft()
                shelf.clear(ahead)
        while ahead:
            yield _take(ahead.popleft(), shelf)
    finally:
        shelf.close()


class _Shelf:
    """Blocks that are being read, or wait."""

    def __init__(self, table: Table, *, keep: bool) -> None:
        self._table = table
        self._keep = keep
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="dtj-data")
        self._held: dict[int, Future[Mapping[str, Any]]] = {}

    def fetch(self, blocks: Sequence[int]) -> None:
        for block in blocks:
            if block not in self._held:
                self._held[block] = self._pool.submit(self._table.read, self._table.blocks[block])

    def get(self, block: int) -> Mapping[str, Any]:
        return self._held[block].result()

    def is_full(self, in_use: Sequence[int]) -> bool:
        waiting = [
            block for block, future in self._held.items() if block not in in_use and not (self._keep and future.done())
        ]
        return len(waiting) >= BLOCKS_AHEAD or sum(self._table.blocks[b].size for b in waiting) >= BYTES_AHEAD

    def clear(self, ahead: "deque[_Chunk]") -> None:
        """Let go of blocks that no chunk ahead needs."""
        if self._keep:
            return
        needed = {block for chunk in ahead for block in chunk.needs}
        for block in [block for block in self._held if block not in needed]:
            del self._held[block]

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def _take(chunk: _Chunk, shelf: _Shelf) -> Mapping[str, Any]:
    if chunk.blocks is None:
        block, rows = shelf.get(chunk.needs[0]), chunk.rows
        if isinstance(rows, slice):
            return {name: column[rows] for name, column in block.items()}
        return {name: column.take(rows, axis=0) for name, column in block.items()}
    taken: dict[str, Any] = {}
    for number in chunk.needs:
        where = np.flatnonzero(chunk.blocks == number)
        for name, column in shelf.get(number).items():
            if name not in taken:
                taken[name] = np.empty((len(chunk.rows), *column.shape[1:]), column.dtype)
            taken[name][where] = column.take(chunk.rows[where], axis=0)
    return taken


def _follow_one_another(positions: Positions) -> bool:
    return bool(positions[-1] - positions[0] == len(positions) - 1 and (np.diff(positions) == 1).all())
