"""Prefetches the blocks of a table on threads, and builds chunks of examples from them."""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from dtj_trainer.data.block_index import BlockIndex, Rows, ScatteredRows, SelectedRows
from dtj_trainer.data.sampler import Positions, merge_windows
from dtj_trainer.data.sources.table import Table

CHUNK, CHUNK_BYTES = 65_536, 16 << 20
"""The size of a chunk in examples, about, and in bytes; the smaller of the two."""
LOOKUP_EXAMPLES = 8_192
"""The least number of examples looked up and gathered at once, column by column: the source of a column then stays
in the processor's cache.
"""
THREADS = 2
BYTES_AHEAD = 256 << 20
"""Bytes of blocks that may wait in memory beside the one being read; of larger blocks, one waits."""
BLOCKS_AHEAD = 4
CHUNKS_AHEAD = 64
PASSES_AHEAD = 2
"""Chunks further ahead than so many passes need no other blocks."""

_Chunk: TypeAlias = Sequence[Rows | ScatteredRows]


def chunks(
    table: Table, index: BlockIndex, windows: Iterator[tuple[int, Positions]], *, keep: bool
) -> Iterator[Mapping[str, Any]]:
    """Yield arrays of examples by column, in the order of `windows`; `keep` keeps all blocks in memory once read.

    Memory: the blocks of one chunk, and ahead of it at most BLOCKS_AHEAD, or BYTES_AHEAD of them, whichever is less.
    """
    cache = _BlockCache(table, keep=keep)
    ahead: deque[_Chunk] = deque()
    row = max(1, sum(block.size for block in table.blocks) // max(1, table.size))
    length = max(1, min(CHUNK, CHUNK_BYTES // row, table.size))
    parts = chain.from_iterable(
        index.find(number, positions)
        for number, positions in merge_windows(windows, min(LOOKUP_EXAMPLES, length), length)
    )
    try:
        for chunk in _group_into_chunks(parts, length):
            ahead.append(chunk)
            cache.fetch(chunk)
            far = len(ahead) >= CHUNKS_AHEAD or sum(map(_examples, ahead)) >= PASSES_AHEAD * table.size
            if not far and not cache.is_full(ahead[0]):
                continue
            yield _build_chunk(ahead[0], cache)
            ahead.popleft()
            cache.clear(ahead)
        while ahead:
            yield _build_chunk(ahead.popleft(), cache)
    finally:
        cache.close()


def _group_into_chunks(parts: Iterable[Rows | ScatteredRows], length: int) -> Iterator[_Chunk]:
    """Yield consecutive rows unchanged, and scattered rows grouped into chunks of about `length` examples."""
    pending: list[ScatteredRows] = []
    for part in parts:
        if isinstance(part, ScatteredRows):
            pending.append(part)
        if pending and (isinstance(part, Rows) or _examples(pending) >= length):
            yield pending
            pending = []
        if isinstance(part, Rows):
            yield (part,)
    if pending:
        yield pending


class _BlockCache:
    """The blocks that are being read or wait in memory."""

    def __init__(self, table: Table, *, keep: bool) -> None:
        self._table = table
        self._keep = keep
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="dtj-data")
        self._blocks: dict[int, Future[Mapping[str, Any]]] = {}

    def fetch(self, chunk: _Chunk) -> None:
        for block in _needed_blocks([chunk]):
            if block not in self._blocks:
                self._blocks[block] = self._pool.submit(self._table.read, self._table.blocks[block])

    def get(self, block: int) -> Mapping[str, Any]:
        return self._blocks[block].result()

    def is_full(self, in_use: _Chunk) -> bool:
        used = _needed_blocks([in_use])
        waiting = [
            block for block, future in self._blocks.items() if block not in used and not (self._keep and future.done())
        ]
        return len(waiting) >= BLOCKS_AHEAD or sum(self._table.blocks[b].size for b in waiting) >= BYTES_AHEAD

    def clear(self, ahead: Iterable[_Chunk]) -> None:
        """Drop the blocks that no chunk ahead needs."""
        if self._keep:
            return
        needed = _needed_blocks(ahead)
        for block in [block for block in self._blocks if block not in needed]:
            del self._blocks[block]

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def _needed_blocks(chunks: Iterable[_Chunk]) -> dict[int, None]:
    """Return the blocks of chunks, in the order in which they are needed."""
    return dict.fromkeys(block for chunk in chunks for part in chunk for block in part.blocks)


def _examples(chunk: _Chunk) -> int:
    return sum(part.examples for part in chunk)


def _build_chunk(chunk: _Chunk, cache: _BlockCache) -> Mapping[str, Any]:
    first = chunk[0]
    if isinstance(first, Rows):
        return {name: column[first.begin : first.end] for name, column in cache.get(first.block).items()}
    scattered = [part for part in chunk if isinstance(part, ScatteredRows)]
    examples = _examples(scattered)
    columns = cache.get(first.blocks[0])
    taken = {name: _empty_aligned((examples, *column.shape[1:]), column.dtype) for name, column in columns.items()}
    start = 0
    for part in scattered:
        for selected in part.selected:
            for name, column in cache.get(selected.block).items():
                _gather(column, selected, taken[name][start : start + part.examples])
        start += part.examples
    return taken


def _gather(column: Any, selected: SelectedRows, out: Any) -> None:
    window = column[selected.begin :]
    if isinstance(selected.destinations, slice):
        window.take(selected.rows, axis=0, out=out, mode="clip")  # to raise, it would go through a copy
    else:
        out[selected.destinations] = window[selected.rows]


def _empty_aligned(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return an uninitialised array in Arrow memory, aligned so that TensorFlow takes it without a copy."""
    if dtype.hasobject:
        return np.empty(shape, dtype)
    import pyarrow as pa

    return np.frombuffer(pa.allocate_buffer(math.prod(shape) * dtype.itemsize), dtype).reshape(shape)
