"""What one process reads of a table, in which order, and in which form TensorFlow gets it."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

from dtj_trainer.data import assembly, block_prefetcher, sampler
from dtj_trainer.data.assembly import Chunk
from dtj_trainer.data.block_index import BlockIndex
from dtj_trainer.data.position import ReadSpan
from dtj_trainer.data.sharding import Shard
from dtj_trainer.data.sources.table import Table


@dataclass(frozen=True, slots=True)
class Reader:
    """All that decides which examples come, in which order."""

    table: Table
    shard: Shard
    order: sampler.Order
    history: tuple[ReadSpan, ...]
    repeat: bool
    keep: bool
    """Hold on to the blocks that were read, and have the same ones in each pass."""
    once: bool = False
    """One pass in the order of the files, for validation."""

    def chunks(self) -> Iterator[Chunk]:
        rows = [block.rows for block in self.table.blocks]
        mixed = bool(self.order.window) and not self.once
        index = BlockIndex(rows, self.order.seed, mixed=mixed, same_each_pass=self.keep)
        return block_prefetcher.chunks(self.table, index, self._positions(), keep=self.keep)

    def _positions(self) -> Iterator[tuple[int, sampler.Positions]]:
        if self.once:
            own = sampler.even_part(self.table.size, self.shard.count, self.shard.index)
            return ((0, window) for window in sampler.Order(self.table.size, 0, 0).windows((own,), 0))
        return sampler.sample_positions(
            self.order, self.history, self.shard.count, self.shard.index, repeat=self.repeat
        )


@dataclass(frozen=True, slots=True)
class Chunks:
    """Arrays by column, of as many examples as happen to come together."""

    reader: Reader

    def specs(self) -> list[Any]:
        """tf.TensorSpecs of what `pieces` gives; the first axis counts."""
        return list(self.reader.table.signature().values())

    def pieces(self) -> Generator[list[Any], None, None]:
        names = list(self.reader.table.signature())
        for chunk in self.reader.chunks():
            yield [chunk[name] for name in names]


@dataclass(frozen=True, slots=True)
class Batches:
    """Some batches at once, in an array for each column: a call into Python costs as much as thousands of examples."""

    reader: Reader
    drop_remainder: bool

    def specs(self) -> list[Any]:
        """tf.TensorSpecs of what `pieces` gives; the first axis counts."""
        import tensorflow as tf

        size = self.reader.shard.batch if self.drop_remainder else None
        found = self.reader.table.signature().values()
        return [tf.TensorSpec([None, size, *spec.shape[1:]], spec.dtype) for spec in found]

    def pieces(self) -> Generator[list[Any], None, None]:
        names = list(self.reader.table.signature())
        ordered = ({name: chunk[name] for name in names} for chunk in self.reader.chunks())
        return assembly.assembled(ordered, self.reader.shard.batch, drop_remainder=self.drop_remainder)
