"""A source, put in order: shard, cache, shuffle, repeat, map, batch, prefetch.

Arrays are shuffled as a whole and then dealt out, example by example: which examples make up global batch n depends
on the seed alone, not on the number of processes. Streams (files) are sharded first, each shard then shuffled in a
window, because no process could read all of them.

Nothing here runs a TensorFlow op before `training()` or `validation()` is called.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from dtj_trainer.data.arrays import Arrays
from dtj_trainer.data.share import Share

AUTOTUNE = -1


class Stream(Protocol):
    """A source that can only be read from front to back."""

    size: int | None
    """Examples, where known without reading."""

    def shard(self, count: int, index: int) -> Any:
        """The examples of one process, as a tf.data.Dataset of single examples."""


@dataclass(frozen=True)
class Pipeline:
    """How the examples of a source become batches.

    `map` gets what the source gives, one example; `shuffle` is the window (for arrays: the whole, if not 0);
    `cache` keeps a stream's examples in memory after the first reading.
    """

    source: Arrays | Stream
    map: Callable[..., Any] | None = None
    shuffle: int | None = 10_000
    cache: bool = False
    repeat: bool = True
    prefetch: int = AUTOTUNE

    @property
    def size(self) -> int | None:
        """Examples of one pass, where known."""
        return self.source.size

    def training(self, share: Share, seed: int, consumed: int) -> Any:
        """Batches of one process from example `consumed` on, counted over all processes since the job began."""
        if isinstance(self.source, Arrays):
            dataset = self._dealt(self.source, share, seed, consumed)
        else:
            dataset = self._streamed(self.source, share, seed, consumed // share.count)
            dataset = self._mapped(dataset).batch(share.batch, drop_remainder=True)
        return dataset.prefetch(self.prefetch)

    def validation(self, share: Share) -> Any:
        """Batches of one process, each example once, in order; the last batch may be smaller."""
        import tensorflow as tf

        if isinstance(self.source, Arrays):
            tensors = self.source.tensors()
            dataset = tf.data.Dataset.from_tensor_slices(tensors).shard(share.count, share.index)
        else:
            dataset = self.source.shard(share.count, share.index)
        return self._mapped(dataset).batch(share.batch).prefetch(self.prefetch)

    def _mapped(self, dataset: Any) -> Any:
        return dataset if self.map is None else dataset.map(self.map, num_parallel_calls=AUTOTUNE, deterministic=True)

    def _dealt(self, source: Arrays, share: Share, seed: int, consumed: int) -> Any:
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
            return tf.reshape(numbers[share.index * share.batch : (share.index + 1) * share.batch], [share.batch])

        def take(numbers: Any) -> Any:
            return tf.nest.map_structure(lambda tensor: tf.gather(tensor, numbers), tensors)

        passes = tf.data.Dataset.range(first, first + 1 if not self.repeat else tf.int64.max)
        numbers = passes.map(order).rebatch(share.global_batch, drop_remainder=True).map(own)
        if self.map is None:
            return numbers.map(take, num_parallel_calls=AUTOTUNE, deterministic=True)
        return self._mapped(numbers.unbatch().map(take)).batch(share.batch, drop_remainder=True)

    def _streamed(self, source: Stream, share: Share, seed: int, consumed: int) -> Any:
        """Single examples of one shard, from its example `consumed` on (counted over all passes)."""
        import tensorflow as tf

        shard = source.shard(share.count, share.index)
        first, offset = 0, 0
        if consumed:
            length = int(shard.reduce(tf.constant(0, tf.int64), lambda count, *_: count + 1))
            first, offset = divmod(consumed, max(1, length))
        if self.cache:
            shard = shard.cache()

        def one_pass(epoch: Any) -> Any:
            examples = shard
            if self.shuffle:
                mixed = tf.random.experimental.stateless_fold_in(tf.constant([seed, share.index], tf.int64), epoch)
                examples = examples.shuffle(self.shuffle, seed=mixed[0], reshuffle_each_iteration=False)
            return examples.skip(tf.where(epoch == first, tf.constant(offset, tf.int64), 0))

        passes = tf.data.Dataset.range(first, first + 1 if not self.repeat else tf.int64.max)
        return passes.flat_map(one_pass)
