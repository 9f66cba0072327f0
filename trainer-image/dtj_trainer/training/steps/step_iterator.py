"""The input iterator of a step: the batches of this process, one after the other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dtj_trainer.checkpoint.content import TrainingPosition
from dtj_trainer.compat import iterators
from dtj_trainer.compat.types import Dataset, Strategy, Structure, Tensor
from dtj_trainer.context import TrainContext
from dtj_trainer.data.adapters.adapter import DataAdapter
from dtj_trainer.data.adapters.batch_split import Share
from dtj_trainer.data.adapters.tensor_rows import batch_length
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.training.steps.read_past import read_past

LARGEST_STATE = 64 << 20
"""Bytes of an iterator's state in a checkpoint, at most."""


class StepIterator:
    """An iterator over the data of a training, from which the step reads the batches of an update."""

    def __init__(self, context: TrainContext, data: DataAdapter) -> None:
        self._context = context
        self._data = data
        self._iterator: Any = None
        self._has_shares = False
        self._saves_state = True
        """Until it cannot, or its state is too large: shuffle buffers are part of it."""

    @property
    def can_seek(self) -> bool:
        """Return whether a trace with this iterator can continue with another dataset."""
        return iterators.can_seek(self._iterator)

    def seek(self, position: TrainingPosition) -> bool:
        """Read from this position on; returns False if the step has to be traced again."""
        unread = self._data.unread(position.data)
        dataset = self._data.dataset(position.data)
        state = position.iterator_state if unread == position.data.batches else None  # else batches had another size
        traced = self._iterator is not None and self.can_seek
        if traced:
            iterators.restart_iterator(self._iterator, dataset)
        else:
            self._has_shares = isinstance(dataset.element_spec, Share)
            self._iterator = iterate(dataset, self._context.strategy, self._context.local_replicas)
        if unread and not (state and self._restore(dataset, state)):
            with explain_data_end():
                read_past(self._reader(), unread, self._context)
        return traced

    def state_at(self, position: TrainingPosition) -> bytes | None:
        """Return what lets `seek` continue at this position, the present one, without reading what was read.

        None where the data does not need it, with several processes or replicas, where TensorFlow cannot save it, and
        where it is too large.
        """
        import tensorflow as tf

        if not self._data.unread(position.data):
            return None
        if not self._saves_state or self._context.workers > 1 or not self.can_seek:
            return None
        try:
            found = iterators.iterator_state(self._iterator)
        except tf.errors.OpError:
            found = None
        if found is None or len(found) > LARGEST_STATE:
            self._saves_state = False
            return None
        return found

    def _restore(self, dataset: Dataset, state: bytes) -> bool:
        """Set the state of the iterator; returns False, and begins the dataset again, if it does not fit."""
        import tensorflow as tf

        if self._context.workers > 1 or not self.can_seek:
            return False
        try:
            iterators.restore_iterator(self._iterator, state)
        except tf.errors.OpError:
            iterators.restart_iterator(self._iterator, dataset)
            return False
        return True

    def _reader(self) -> Callable[[int], None]:
        """Return a function that reads so many batches, and drops them."""
        import tensorflow as tf

        @tf.function(input_signature=[tf.TensorSpec([], tf.int64)], autograph=False)
        def read(batches: Tensor) -> Tensor:
            def body(done: Tensor) -> Tensor:
                with tf.control_dependencies(tf.nest.flatten(next(self._iterator), expand_composites=True)):
                    return done + 1

            return tf.while_loop(lambda done: done < batches, body, [tf.constant(0, tf.int64)])

        return lambda batches: read(tf.constant(batches, tf.int64))

    def read(self, batches: int) -> tuple[tuple[Structure, ...], Tensor]:
        """Return one update's batches as Shares, and the seconds they took to come; traced.

        The seconds are 0 under op determinism, which has no clock.
        """
        import tensorflow as tf

        if self._context.deterministic:
            return self._next(batches), tf.constant(0.0, tf.float64)
        before = tf.timestamp()
        with tf.control_dependencies([before]):
            found = self._next(batches)
        with tf.control_dependencies(tf.nest.flatten(found, expand_composites=True)):
            return found, tf.timestamp() - before

    def _next(self, batches: int) -> tuple[Structure, ...]:
        return tuple(next(self._iterator) for _ in range(batches))

    def share(self, element: Structure) -> Share:
        """Return an element of the iterator as the Share of this replica; in replica context."""
        replicas = self._context.replicas
        if not self._has_shares:
            examples = batch_length(element)
            total = examples * replicas if self._data.batches_are_global else None
            return Share(element, examples, total)
        share = Share(*element)
        return share if self._data.batches_are_global or self._context.workers == 1 else share._replace(total=None)


def iterate(dataset: Any, strategy: Strategy, local_replicas: int) -> Any:
    """Return an iterator over a dataset that has one element a replica.

    A plain one for one replica on the CPU, TensorFlow's distributed one for several, or on GPUs.
    """
    import tensorflow as tf

    if local_replicas == 1 and not tf.config.list_physical_devices("GPU"):
        return iter(dataset)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    dataset = dataset.with_options(options)
    return iter(strategy.distribute_datasets_from_function(lambda _: dataset))


@contextmanager
def explain_data_end() -> Iterator[None]:
    """Explain in one sentence that there are no more batches, where the code inside reads some.

    Raises:
        PreflightFailed: the data is empty, or ended before the training did.
    """
    import tensorflow as tf

    try:
        yield
    except (StopIteration, tf.errors.OutOfRangeError) as error:
        raise PreflightFailed(
            "the data is empty or ended before the training did; repeat it, or give fewer epochs= or steps="
        ) from error
