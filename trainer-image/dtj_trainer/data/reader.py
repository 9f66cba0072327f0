"""The batches that one process reads from a table, as NumPy arrays."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dtj_trainer.data import block_prefetcher, sampler
from dtj_trainer.data.block_index import BlockIndex
from dtj_trainer.data.position import ReadSpan
from dtj_trainer.data.sharding import Shard
from dtj_trainer.data.sources.table import Table

Chunk: TypeAlias = Mapping[str, Any]
"""Arrays [examples, ...] by column."""


@dataclass(frozen=True, slots=True)
class Reader:
    """The settings that decide which examples a process reads, and in which order."""

    table: Table
    shard: Shard
    order: sampler.Order
    history: tuple[ReadSpan, ...]
    repeat: bool
    keep: bool
    """Keep the blocks in memory once read, and read the same ones in each pass."""
    once: bool = False
    """One pass in the order of the files, for validation."""

    def chunks(self) -> Iterator[Chunk]:
        """Return the examples of this process in order, as chunks of any size."""
        rows = [block.rows for block in self.table.blocks]
        mixed = bool(self.order.window) and not self.once
        index = BlockIndex(rows, self.order.seed, mixed=mixed, same_each_pass=self.keep)
        return block_prefetcher.chunks(self.table, index, self._positions(), keep=self.keep)

    def _positions(self) -> Iterator[tuple[int, sampler.Positions]]:
        if self.once:
            own = sampler.even_share(self.table.size, self.shard.count, self.shard.index)
            return ((0, window) for window in sampler.Order(self.table.size, 0, 0).windows((own,), 0))
        return sampler.sample_positions(
            self.order, self.history, self.shard.count, self.shard.index, repeat=self.repeat
        )


@dataclass(frozen=True, slots=True)
class Chunks:
    """The source of single examples: yields arrays by column, of any number of examples."""

    reader: Reader

    def specs(self) -> list[Any]:
        """Return the tf.TensorSpecs of `pieces`; the first axis has any length."""
        return list(self.reader.table.signature().values())

    def pieces(self) -> Generator[list[Any], None, None]:
        """Yield lists of arrays, one per column."""
        names = list(self.reader.table.signature())
        for chunk in self.reader.chunks():
            yield [chunk[name] for name in names]


@dataclass(frozen=True, slots=True)
class Batches:
    """The source of batches: yields several at once, because a call into Python costs as much as many examples."""

    reader: Reader
    drop_remainder: bool

    def specs(self) -> list[Any]:
        """Return the tf.TensorSpecs of `pieces`; the first axis has any length."""
        import tensorflow as tf

        size = self.reader.shard.batch if self.drop_remainder else None
        found = self.reader.table.signature().values()
        return [tf.TensorSpec([None, size, *spec.shape[1:]], spec.dtype) for spec in found]

    def pieces(self) -> Generator[list[Any], None, None]:
        """Yield lists of arrays, one per column."""
        names = list(self.reader.table.signature())
        ordered = ({name: chunk[name] for name in names} for chunk in self.reader.chunks())
        return assemble_batches(ordered, self.reader.shard.batch, drop_remainder=self.drop_remainder)


def assemble_batches(chunks: Iterable[Chunk], batch: int, *, drop_remainder: bool) -> Generator[list[Any], None, None]:
    """Yield arrays [batches, batch, ...], one per column: all whole batches of a chunk; at the end a smaller one.

    Batches within one chunk are a slice of it, so nothing is copied.
    """
    held: list[Chunk] = []
    for chunk in chunks:
        start, total = 0, _examples([chunk])
        if held:
            start = min(total, batch - _examples(held))
            held.append(_span(chunk, 0, start))
            if _examples(held) < batch:
                continue
            yield _stacked(held, batch)
            held = []
        whole = start + (total - start) // batch * batch
        if whole > start:
            yield _stacked([_span(chunk, start, whole)], batch)
        if whole < total:
            held = [_span(chunk, whole, total)]
    if held and not drop_remainder:
        yield _stacked(held, _examples(held))


def _stacked(spans: Sequence[Chunk], batch: int) -> list[Any]:
    """Return the columns of `spans`, reshaped to batches of `batch`."""
    columns = (
        spans[0][name] if len(spans) == 1 else np.concatenate([span[name] for span in spans]) for name in spans[0]
    )
    return [column.reshape(-1, batch, *column.shape[1:]) for column in columns]


def _examples(spans: Sequence[Chunk]) -> int:
    return sum(len(next(iter(span.values()))) for span in spans)


def _span(chunk: Chunk, start: int, stop: int) -> Chunk:
    return {name: column[start:stop] for name, column in chunk.items()}
