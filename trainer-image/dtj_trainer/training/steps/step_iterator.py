"""The input iterator of a compiled step: the batches of this process, one after the other."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dtj_trainer.compat import tensorflow as compat
from dtj_trainer.compat.types import Dataset, Strategy, Structure, Tensor
from dtj_trainer.context import TrainContext
from dtj_trainer.data.adapters.batch_split import split_for_replicas
from dtj_trainer.errors import PreflightFailed


class StepIterator:
    """An iterator that a traced function reads `batches` an update from."""

    def __init__(self, context: TrainContext, batches: int) -> None:
        self._context = context
        self._batches = batches
        self._iterator: Any = None

    @property
    def can_seek(self) -> bool:
        """Return whether a trace with this iterator can continue with another dataset."""
        return compat.can_seek(self._iterator)

    def seek(self, dataset: Dataset) -> bool:
        """Read this dataset from its beginning; returns False if the step has to be traced again."""
        if self._iterator is not None and self.can_seek:
            compat.restart_iterator(self._iterator, dataset)
            return True
        self._iterator = iterate(dataset, self._context.strategy, self._context.local_replicas)
        return False

    def read(self) -> tuple[Structure, Tensor]:
        """Return one update's batches, and the seconds they took to come; traced.

        The seconds are 0 under op determinism, which has no clock.
        """
        import tensorflow as tf

        if self._context.deterministic:
            return self._next(), tf.constant(0.0, tf.float64)
        before = tf.timestamp()
        with tf.control_dependencies([before]):
            batches = self._next()
        with tf.control_dependencies(tf.nest.flatten(batches, expand_composites=True)):
            return batches, tf.timestamp() - before

    def _next(self) -> Structure:
        return tuple(next(self._iterator) for _ in range(self._batches))


def iterate(dataset: Any, strategy: Strategy, local_replicas: int) -> Any:
    """Return an iterator over this process's batches, one element a replica.

    A plain one for one replica on the CPU, TensorFlow's distributed one for several, or on GPUs.
    """
    import tensorflow as tf

    if local_replicas == 1 and not tf.config.list_physical_devices("GPU"):
        return iter(dataset)
    if local_replicas > 1:
        dataset = split_for_replicas(dataset, local_replicas)
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
