"""Blocks of a table, read by threads before they are needed, and taken apart into chunks of examples."""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from dtj_trainer.data.block_index import BlockIndex, Mixed, Picked, Rows
from dtj_trainer.data.sampler import Positions, gathered
from dtj_trainer.data.sources.table import Table

CHUNK, CHUNK_BYTES = 65_536, 16 << 20
"""Examples that are taken at once, about, and bytes; whichever is less."""
PART = 8_192
"""Examples that are looked up and gathered at once, at least: column by column, so that what a column is gathered
from stays in a processor's cache meanwhile.
"""
THREADS = 2
BYTES_AHEAD = 256 << 20
"""Blocks that may wait in memory beside the one being read from; of larger ones, one waits."""
BLOCKS_AHEAD = 4
CHUNKS_AHEAD = 64
PASSES_AHEAD = 2
"""What is this far ahead needs no block that nothing nearer needs."""

_Chunk: TypeAlias = Sequence[Rows | Mixed]


def chunks(
    table: Table, index: BlockIndex, found: Iterator[tuple[int, Positions]], *, keep: bool
) -> Iterator[Mapping[str, Any]]:
    """Arrays of examples by column, in the order of `found`; `keep` holds on to all blocks that were read once.

    Memory: the blocks of one chunk, and ahead of it at most BLOCKS_AHEAD, or BYTES_AHEAD of them, whichever is less.
    """
    shelf = _Shelf(table, keep=keep)
    ahead: deque[_Chunk] = deque()
    row = max(1, sum(block.size for block in table.blocks) // max(1, table.size))
    length = max(1, min(CHUNK, CHUNK_BYTES // row, table.size))
    parts = chain.from_iterable(
        index.find(number, positions) for number, positions in gathered(found, min(PART, length), length)
    )
    try:
        for chunk in _joined(parts, length):
            ahead.append(chunk)
            shelf.fetch(chunk)
            far = len(ahead) >= CHUNKS_AHEAD or sum(map(_examples, ahead)) >= PASSES_AHEAD * table.size
            if not far and not shelf.is_full(ahead[0]):
                continue
            yield _take(ahead[0], shelf)
            ahead.popleft()
            shelf.clear(ahead)
        while ahead:
            yield _take(ahead.popleft(), shelf)
    finally:
        shelf.close()


def _joined(parts: Iterable[Rows | Mixed], length: int) -> Iterator[_Chunk]:
    """Rows that lie together as they are; what has to be gathered in chunks of about `length` examples."""
    held: list[Mixed] = []
    for part in parts:
        if isinstance(part, Mixed):
            held.append(part)
        if held and (isinstance(part, Rows) or _examples(held) >= length):
            yield held
            held = []
        if isinstance(part, Rows):
            yield (part,)
    if held:
        yield held


class _Shelf:
    """Blocks that are being read, or wait."""

    def __init__(self, table: Table, *, keep: bool) -> None:
        self._table = table
        self._keep = keep
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="dtj-data")
        self._held: dict[int, Future[Mapping[str, Any]]] = {}

    def fetch(self, chunk: _Chunk) -> None:
        for block in _needs([chunk]):
            if block not in self._held:
                self._held[block] = self._pool.submit(self._table.read, self._table.blocks[block])

    def get(self, block: int) -> Mapping[str, Any]:
        return self._held[block].result()

    def is_full(self, in_use: _Chunk) -> bool:
        used = _needs([in_use])
        waiting = [
            block for block, future in self._held.items() if block not in used and not (self._keep and future.done())
        ]
        return len(waiting) >= BLOCKS_AHEAD or sum(self._table.blocks[b].size for b in waiting) >= BYTES_AHEAD

    def clear(self, ahead: Iterable[_Chunk]) -> None:
        """Let go of blocks that no chunk ahead needs."""
        if self._keep:
            return
        needed = _needs(ahead)
        for block in [block for block in self._held if block not in needed]:
            del self._held[block]

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def _needs(chunks: Iterable[_Chunk]) -> dict[int, None]:
    """Blocks, in the order in which they are needed."""
    return dict.fromkeys(block for chunk in chunks for part in chunk for block in part.blocks)


def _examples(chunk: _Chunk) -> int:
    return sum(part.examples for part in chunk)


def _take(chunk: _Chunk, shelf: _Shelf) -> Mapping[str, Any]:
    first = chunk[0]
    if isinstance(first, Rows):
        return {name: column[first.begin : first.end] for name, column in shelf.get(first.block).items()}
    mixed = [part for part in chunk if isinstance(part, Mixed)]
    examples = _examples(mixed)
    columns = shelf.get(first.blocks[0])
    taken = {name: _aligned((examples, *column.shape[1:]), column.dtype) for name, column in columns.items()}
    start = 0
    for part in mixed:
        for picked in part.picked:
            for name, column in shelf.get(picked.block).items():
                _gather(column, picked, taken[name][start : start + part.examples])
        start += part.examples
    return taken


def _gather(column: Any, picked: Picked, into: Any) -> None:
    near = column[picked.begin :]
    if isinstance(picked.places, slice):
        near.take(picked.rows, axis=0, out=into, mode="clip")  # to raise, it would go through a copy
    else:
        into[picked.places] = near[picked.rows]


def _aligned(shape: tuple[int, ...], dtype: Any) -> Any:
    """An empty array in memory of Arrow's, which starts where TensorFlow needs it to take it without copying."""
    if dtype.hasobject:
        return np.empty(shape, dtype)
    import pyarrow as pa

    return np.frombuffer(pa.allocate_buffer(math.prod(shape) * dtype.itemsize), dtype).reshape(shape)
