"""The Pipeline: shards, caches, shuffles, repeats, maps, batches and prefetches the examples of a source.

Arrays are shuffled as a whole and then divided: which examples make up global batch n depends on the seed alone, not on
the number of processes. Tables (files) are divided first, into contiguous shares, and each share is then shuffled in a
window, because no process could read all files (`sampler`).

No TensorFlow op runs before `training()` or `validation()` is called.
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
    """The way from the examples of a source to batches.

    `map` is called with one example of the source; `shuffle` is the window in examples (arrays are shuffled as a whole
    unless it is 0); `cache` keeps the blocks of a table in memory once read, and reads them in the same
    order in each pass.
    """

    source: Arrays | Table
    map: Callable[..., Any] | None = None
    shuffle: int | None = 10_000
    cache: bool = False
    repeat: bool = True
    prefetch: int = AUTOTUNE

    @property
    def size(self) -> int | None:
        """The number of examples in one pass, if known."""
        return self.source.size

    def element_spec(self, shard: Shard) -> Any:
        """Return the element_spec of `training`, without building the dataset if the arrays are enough."""
        if isinstance(self.source, Arrays) and self.map is None:
            return self.source.batch_spec(shard.batch)
        return self.training(shard, 0).element_spec

    def training(self, shard: Shard, seed: int, history: Sequence[ReadSpan] = ()) -> Any:
        """Return the batches of one process after `history`, which says how much was read since the job began."""
        if isinstance(self.source, Arrays):
            dataset = self._array_batches(self.source, shard, seed, sum(span.examples for span in history))
        else:
            order = sampler.Order(self.source.size, self.shuffle or 0, seed)
            reader = Reader(self.source, shard, order, tuple(history), self.repeat, keep=self.cache)
            dataset = self._batches(reader, drop_remainder=True)
        return dataset.prefetch(self.prefetch)

    def validation(self, shard: Shard) -> Any:
        """Return the batches of one process, each example once, in order; the last batch may be smaller."""
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

    def _array_batches(self, source: Arrays, shard: Shard, seed: int, consumed: int) -> Any:
        """Return batches of arrays: each pass is permuted and cut into global batches; a process takes its slice."""
        import tensorflow as tf

        tensors, size = source.tensors(), source.size
        first, offset = divmod(consumed, size)

        def order(epoch: Any) -> Any:
            numbers = tf.range(size, dtype=tf.int64)
            if self.shuffle:
                numbers = tf.random.experimental.stateless_shuffle(numbers, seed=tf.stack([seed, epoch]))
            return numbers[tf.where(epoch == first, tf.constant(offset, tf.int64), 0) :]

        def own_slice(numbers: Any) -> Any:
            return tf.reshape(numbers[shard.index * shard.batch : (shard.index + 1) * shard.batch], [shard.batch])

        def take(numbers: Any) -> Any:
            return tf.nest.map_structure(lambda tensor: tf.gather(tensor, numbers), tensors)

        as_graph = tf.autograph.experimental.do_not_convert  # AutoGraph takes longer than tracing does
        passes = tf.data.Dataset.range(first, first + 1 if not self.repeat else tf.int64.max)
        numbers = passes.map(as_graph(order)).rebatch(shard.global_batch, drop_remainder=True).map(as_graph(own_slice))
        if self.map is None:
            return numbers.map(as_graph(take), num_parallel_calls=AUTOTUNE, deterministic=True)
        return self._mapped(numbers.unbatch().map(as_graph(take))).batch(shard.batch, drop_remainder=True)

    def _batches(self, reader: Reader, *, drop_remainder: bool) -> Any:
        """Return batches of a table: whole batches at once, or single examples if `map` needs them."""
        if self.map is None and reader.table.takes_batches:
            return tf_dataset.batches(reader, drop_remainder=drop_remainder)
        return self._mapped(tf_dataset.examples(reader)).batch(reader.shard.batch, drop_remainder=drop_remainder)
