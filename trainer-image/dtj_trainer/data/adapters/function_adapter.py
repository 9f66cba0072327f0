"""The adapter of functions fn(ctx) that return the Dataset of one process."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from dtj_trainer.data.adapters.batch_split import is_dataset, split_own_for_replicas, without_autotune
from dtj_trainer.data.position import DataPosition
from dtj_trainer.data.sharding import BatchSize, Sharding
from dtj_trainer.errors import PreflightFailed


class FunctionAdapter:
    """A function fn(tf.distribute.InputContext) that every process, or server, calls for its own part."""

    batch_size = BatchSize(None, None)
    reads_in_python = False
    open_epochs = 0
    batches_are_global = False
    passes_end = False
    batches_per_pass = None

    def __init__(self, function: Callable[[Any], Any], sharding: Sharding) -> None:
        self._function = function
        self._sharding = sharding

    @cached_property
    def given_dataset(self) -> Any:
        """The dataset that the function returns for this process."""
        return self._call(self._sharding.input_context())

    @property
    def element_spec(self) -> Any:
        """Return the structure of one batch of this process."""
        return self.given_dataset.element_spec

    def batches_before(self, position: DataPosition) -> int:
        """Return the number of batches that were read."""
        return position.batches

    def unread(self, position: DataPosition) -> int:
        """Return how many batches at the beginning of `dataset(position)` were trained already: all of them."""
        return position.batches

    @property
    def fingerprint(self) -> str:
        """Return the same text in every process: each has its own data, so nothing must be equal."""
        return "its own dataset"

    def dataset(self, position: DataPosition) -> Any:
        """Return infinite batches for the replicas of this process, or Shares of them."""
        import tensorflow as tf

        del position
        return split_own_for_replicas(self.given_dataset.repeat(), self._sharding.local_replicas).prefetch(
            tf.data.AUTOTUNE
        )

    def server_dataset(self, workers: int, index: int, position: DataPosition) -> Any:
        """Return infinite batches of one server, from its first batch on."""
        import tensorflow as tf

        del position
        return self._call(tf.distribute.InputContext(workers, index, 1)).repeat()

    def evaluation_dataset(self) -> Any:
        """Return the dataset of this process, once."""
        return without_autotune(self.given_dataset)

    def _call(self, context: Any) -> Any:
        dataset = self._function(context)
        if not is_dataset(dataset):
            raise PreflightFailed(f"data(ctx) returned {type(dataset).__name__}; it has to return a tf.data.Dataset")
        return dataset
