"""The adapter of arrays, tensors, frames and sparse matrices in memory, and of structures of them."""

from typing import Any

from dtj_trainer.compat.types import Dataset, Structure, Tensor
from dtj_trainer.data.adapters.array_data import ArrayData
from dtj_trainer.data.adapters.batch_split import (
    AUTOTUNE,
    Share,
    split_for_processes,
    split_for_replicas,
    without_autotune,
)
from dtj_trainer.data.adapters.python_batches import spec_of
from dtj_trainer.data.adapters.tensor_rows import take_rows
from dtj_trainer.data.position import DataPosition
from dtj_trainer.data.sharding import BatchSize, Sharding


class ArrayAdapter:
    """Arrays that every process has as a whole: in each pass they are put into one order and cut into global batches.

    The last batch of a pass may be smaller.
    """

    reads_in_python = False
    open_epochs = 0
    batches_are_global = True
    passes_end = True

    def __init__(
        self,
        data: ArrayData,
        sharding: Sharding,
        batch_size: BatchSize,
        *,
        shuffle: bool = False,
        seed: int = 0,
        most_batches: int | None = None,
    ) -> None:
        assert batch_size.total is not None
        self._data = data
        self._sharding = sharding
        self._total = batch_size.total
        self._shuffle = shuffle
        self._seed = seed
        self._most_batches = most_batches
        self.batch_size = batch_size

    @property
    def element_spec(self) -> Any:
        """Return the structure of one batch."""
        return spec_of([self._data.batch])

    @property
    def batches_per_pass(self) -> int:
        """Return the batches in one pass, the smaller last one among them."""
        return -(-self._data.size // self._total)

    def batches_before(self, position: DataPosition) -> int:
        """Return how many batches of today's size end the pass with those that are left of it."""
        passes, offset = divmod(position.examples, self._data.size)
        left = -(-(self._data.size - offset) // self._total)
        return (passes + 1) * self.batches_per_pass - left

    @property
    def fingerprint(self) -> str:
        """Return the number of examples."""
        return f"{self._data.size} examples"

    def unread(self, position: DataPosition) -> int:
        """Return 0: `dataset(position)` begins there."""
        del position
        return 0

    def dataset(self, position: DataPosition) -> Any:
        """Return infinite batches for the replicas of this process, or Shares of them."""
        numbers = split_for_replicas(self._order(position), self._sharding, self._size)
        return self._taken(numbers).prefetch(AUTOTUNE)

    def server_dataset(self, workers: int, index: int, position: DataPosition) -> Any:
        """Return infinite global batches: every nth of the order, for one of n servers."""
        return self._taken(self._order(position).shard(workers, index)).prefetch(AUTOTUNE)

    def evaluation_dataset(self) -> Any:
        """Return this process's part of each batch, in order, once."""
        import tensorflow as tf

        numbers = tf.data.Dataset.range(self._data.size).batch(self._total).take(self._most_batches or -1)
        own = split_for_processes(numbers, self._sharding)
        return without_autotune(self._taken(own).prefetch(AUTOTUNE))

    @property
    def _size(self) -> int | None:
        """The size of all batches; None if the last one is smaller."""
        return None if self._data.size % self._total else self._total

    def _order(self, position: DataPosition) -> Any:
        """Return the numbers of the examples of each global batch, from `position` on."""
        import tensorflow as tf

        size, total, known = self._data.size, self._total, self._size
        first, offset = divmod(position.examples, size)
        if offset % total:
            known = None
        as_graph = tf.autograph.experimental.do_not_convert  # AutoGraph takes longer than tracing does

        def batches(number: Tensor) -> Dataset:
            numbers = tf.range(size, dtype=tf.int64)
            if self._shuffle:
                seed = tf.stack([tf.constant(self._seed, tf.int64), number])
                numbers = tf.random.experimental.stateless_shuffle(numbers, seed=seed)
            start = tf.where(number == first, tf.constant(offset, tf.int64), 0)

            def batch(place: Tensor) -> Tensor:
                begin = start + place * total
                return numbers[begin : begin + total]

            found: Dataset = tf.data.Dataset.range((size - start + total - 1) // total).map(as_graph(batch))
            return found

        order = tf.data.Dataset.range(first, tf.int64.max).flat_map(as_graph(batches))
        if known is None:
            return order
        return order.map(as_graph(lambda numbers: tf.ensure_shape(numbers, [total])))

    def _taken(self, numbers: Any) -> Any:
        """Return the batches of these numbers, which may be Shares."""
        import tensorflow as tf

        with tf.device("/cpu:0"):
            tensors = tf.nest.map_structure(
                lambda array: array if tf.is_tensor(array) else tf.convert_to_tensor(array), self._data.batch
            )

        def take(numbers: Tensor) -> Structure:
            return tf.nest.map_structure(lambda tensor: take_rows(tensor, numbers), tensors)

        def take_share(share: Share) -> Share:
            return Share(take(share.batch), share.examples, share.total)

        shares = isinstance(numbers.element_spec, Share)
        function = tf.autograph.experimental.do_not_convert(take_share if shares else take)
        return numbers.map(function, num_parallel_calls=AUTOTUNE, deterministic=True)
