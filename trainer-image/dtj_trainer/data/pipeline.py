"""A source, put in order: shard, cache, shuffle, repeat, map, batch, prefetch.

Arrays are shuffled as a whole and then dealt out, example by example: which examples make up global batch n depends
on the seed alone, not on the number of processes. Tables (files) are dealt out first, in parts that are whole blocks
but for their ends, and each part is then shuffled in a window, because no process could read all of them (`deal`).

Nothing here runs a TensorFlow op before `training()` or `validation()` is called.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dtj_trainer.data import sampler, tf_dataset
from dtj_trainer.data.position import ReadSpan
from dtj_trainer.data.reader import Reader
from dtj_trainer.data.sharding import Shard
from dtj_trainer.data.sources.arrays import Arrays
from dtj_trainer.data.sources.table import Table

AUTOTUNE = -1


@dataclass(frozen=True)
class Pipeline:
    """How the examples of a source become batches.

    `map` gets what the source gives, one example; `shuffle` is the window (for arrays: the whole, if not 0);
    `cache` keeps the blocks of a table in memory after the first reading, and reads the same ones in each pass.
    """

    source: Arrays | Table
    map: Callable[..., Any] | None = None
    shuffle: int | None = 10_000
    cache: bool = False
    repeat: bool = True
    prefetch: int = AUTOTUNE

    @property
    def size(self) -> int | None:
        """Examples of one pass, where known."""
        return self.source.size

    def element_spec(self, shard: Shard) -> Any:
        """What `training` gives, without building it where the arrays tell."""
        if isinstance(self.source, Arrays) and self.map is None:
            return self.source.batch_spec(shard.batch)
        return self.training(shard, 0).element_spec

    def training(self, shard: Shard, seed: int, history: Sequence[ReadSpan] = ()) -> Any:
        """Batches of one process from where `history` ends: who has read how much since the job began."""
        if isinstance(self.source, Arrays):
            dataset = self._dealt(self.source, shard, seed, sum(dealt.examples for dealt in history))
        else:
            order = sampler.Order(self.source.size, self.shuffle or 0, seed)
            reader = Reader(self.source, shard, order, tuple(history), self.repeat, keep=self.cache)
            dataset = self._batches(reader, drop_remainder=True)
        return dataset.prefetch(self.prefetch)

    def validation(self, shard: Shard) -> Any:
        """Batches of one process, each example once, in order; the last batch may be smaller."""
        import tensorflow as tf

        if isinstance(self.source, Arrays):
            tensors = self.source.tensors()
            dataset = tf.data.Dataset.from_tensor_slices(tensors).shard(shard.count, shard.index)
            dataset = self._mapped(dataset).batch(shard.batch)
        else:
            order = sampler.Order(self.source.size, 0, 0)
            reader = Reader(self.source, shard, order, (), repeat=False, keep=self.cache, once=True)
            dataset = self._batches(reader, drop_remainder=False)
        return dataset.prefetch(self.prefetch)

    def _mapped(self, dataset: Any) -> Any:
        return dataset if self.map is None else dataset.map(self.map, num_parallel_calls=AUTOTUNE, deterministic=True)

    def _dealt(self, source: Arrays, shard: Shard, seed: int, consumed: int) -> Any:
        """Array batches: a permutation a pass, cut into global batches, of which this process takes its slice."""
        import tensorflow as tf

        tensors, size = source.tensors(), source.size
        first, offset = divmod(consumed, size)

        def order(epoch: Any) -> Any:
            numbers = tf.range(size, dtype=tf.int64)
            if self.shuffle:
                numbers = tf.random.experimental.stateless_shuffle(numbers, seed=tf.stack([seed, epoch]))
            return numbers[tf.where(epoch == first, tf.constant(offset, tf.int64), 0) :]

        def own(numbers: Any) -> Any:
            return tf.reshape(numbers[shard.index * shard.batch : (shard.index + 1) * shard.batch], [shard.batch])

        def take(numbers: Any) -> Any:
            return tf.nest.map_structure(lambda tensor: tf.gather(tensor, numbers), tensors)

        plain = tf.autograph.experimental.do_not_convert  # rewriting their source takes longer than tracing them
        passes = tf.data.Dataset.range(first, first + 1 if not self.repeat else tf.int64.max)
        numbers = passes.map(plain(order)).rebatch(shard.global_batch, drop_remainder=True).map(plain(own))
        if self.map is None:
            return numbers.map(plain(take), num_parallel_calls=AUTOTUNE, deterministic=True)
        return self._mapped(numbers.unbatch().map(plain(take))).batch(shard.batch, drop_remainder=True)

    def _batches(self, reader: Reader, *, drop_remainder: bool) -> Any:
        """Whole batches at once; example by example only where a function of the user's wants that."""
        if self.map is None and reader.table.takes_batches:
            return tf_dataset.batches(reader, drop_remainder=drop_remainder)
        return self._mapped(tf_dataset.examples(reader)).batch(reader.shard.batch, drop_remainder=drop_remainder)
