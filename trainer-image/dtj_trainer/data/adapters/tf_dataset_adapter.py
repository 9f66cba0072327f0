"""The adapter of a tf.data.Dataset of global batches."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from dtj_trainer.compat import tensorflow as compat
from dtj_trainer.data.adapters.batch_split import (
    split_for_processes,
    split_for_replicas,
    static_batch_size,
    without_autotune,
)
from dtj_trainer.data.adapters.tensor_rows import batch_length
from dtj_trainer.data.position import DataPosition
from dtj_trainer.data.sharding import BatchSize, Sharding
from dtj_trainer.errors import PreflightFailed

UNKNOWN, INFINITE = -2, -1
"""Cardinalities, as `tf.data.UNKNOWN_CARDINALITY` and `tf.data.INFINITE_CARDINALITY`."""
SHUFFLES = ("ShuffleDataset", "ShuffleDatasetV2", "ShuffleDatasetV3", "ShuffleAndRepeatDataset")
"""Their third and fourth inputs are the seeds; two zeros mean a random order (tf.data's random_seed.get_seed)."""

ENDLESS = ("RepeatDataset", "ShuffleAndRepeatDataset", "ShuffleAndRepeatDatasetV2", "RandomDataset", "RandomDatasetV2")


class TfDatasetAdapter:
    """A Dataset that every process reads as a whole, to take its slice of each batch; a resume skips what was read."""

    reads_in_python = True  # a Dataset made here may call Python, and its variables are of this process
    open_epochs = 0
    batches_are_global = True
    passes_end = True

    def __init__(
        self,
        dataset: Any,
        sharding: Sharding,
        batch_size: BatchSize,
        *,
        given_batches: int | None = None,
        most_batches: int | None = None,
        counted_batches: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.given_dataset = dataset
        self.batch_size = batch_size
        self._sharding = sharding
        self._given_batches = given_batches
        self._most_batches = most_batches
        self._counted_batches = counted_batches

    @property
    def element_spec(self) -> Any:
        """Return the structure of one global batch."""
        return self.given_dataset.element_spec

    @cached_property
    def batches_per_pass(self) -> int | None:
        """Return the batches in one pass, if that is known.

        A Dataset that does not know its length is read to count them, unless an earlier start of the job has counted
        them, or the caller gave a number of batches and the Dataset seems to have no end.
        """
        cardinality = int(self.given_dataset.cardinality())
        if cardinality == UNKNOWN and not (self._given_batches and _repeats(self.given_dataset)):
            counted = self._counted_batches()
            cardinality = self._count() if counted is None else counted
        if cardinality < 0:
            return None
        if cardinality == 0:
            raise PreflightFailed("the dataset is empty; check its files and filters")
        return cardinality

    def _count(self) -> int:
        """Read and count the batches; INFINITE if there are more than the training needs."""
        import tensorflow as tf

        counted, most = self.given_dataset, self._most_batches
        if most is not None:
            counted = counted.take(most + 1)
        found = int(counted.reduce(tf.constant(0, tf.int64), lambda count, *_: count + 1))
        return INFINITE if most is not None and found > most else found

    def batches_before(self, position: DataPosition) -> int:
        """Return the number of batches that were read: by examples, if all batches have one size."""
        total = self.batch_size.total
        return sum(span.examples for span in position.read) // total if total else position.batches

    def unread(self, position: DataPosition) -> int:
        """Return how many batches at the beginning of `dataset(position)` were trained already: all of them."""
        return self.batches_before(position)

    @property
    def fingerprint(self) -> str:
        """Return the number of batches of a pass."""
        return f"{self.batches_per_pass} batches"

    def dataset(self, position: DataPosition) -> Any:
        """Return infinite batches for the replicas of this process, or Shares of them, from the first one on."""
        import tensorflow as tf

        del position
        parts = split_for_replicas(self.given_dataset.repeat(), self._sharding, static_batch_size(self.given_dataset))
        return parts.prefetch(tf.data.AUTOTUNE)

    def server_dataset(self, workers: int, index: int, position: DataPosition) -> Any:
        """Raise: a Dataset is read in this process."""
        raise NotImplementedError

    def evaluation_dataset(self) -> Any:
        """Return the share of this process of each batch, each example once."""
        return without_autotune(split_for_processes(self.given_dataset, self._sharding))


def check_order(dataset: Any, sharding: Sharding) -> None:
    """Refuse training data that each process would read in another order.

    Raises:
        PreflightFailed: it is shuffled without a seed, and there are several processes.
    """
    if sharding.workers > 1 and has_unseeded_shuffle(dataset):
        raise PreflightFailed(
            f"the dataset is shuffled without a seed, so each of {sharding.workers} processes would read another "
            "order, and examples twice or never; give shuffle(…, seed=1), or a dtj.data.Pipeline"
        )


def first_batch_size(dataset: Any) -> int:
    """Return the number of examples in a Dataset's first batch; 0 if it is empty."""
    return next((int(batch_length(first)) for first in dataset.take(1)), 0)


def has_unseeded_shuffle(dataset: Any) -> bool:
    """Return whether a `shuffle` in the dataset, at any depth, has neither its own seed nor a global one."""
    return any(all(seed == 0 for seed in seeds) for nodes in _bodies(dataset) for seeds in _shuffle_seeds(nodes))


def comes_from_python(dataset: Any) -> bool:
    """Return whether a generator in Python yields the elements, at any depth."""
    return any(node.op == "GeneratorDataset" for nodes in _bodies(dataset) for node in nodes)


def _repeats(dataset: Any) -> bool:
    """Return whether something in the dataset, at any depth, may be repeated without end."""
    return any(node.op in ENDLESS for nodes in _bodies(dataset) for node in nodes)


def _bodies(dataset: Any) -> list[Any]:
    """Return the nodes of a dataset, and those of each function in it."""
    graph = compat.dataset_graph(dataset)
    return [graph.node, *(function.node_def for function in graph.library.function)]


def _shuffle_seeds(nodes: Any) -> Iterator[list[int | None]]:
    constants = {node.name: node.attr["value"].tensor for node in nodes if node.op == "Const"}
    for node in nodes:
        if node.op.startswith(SHUFFLES):
            names = [name.split(":")[0] for name in node.input[2:4]]
            yield [_number(constants[name]) if name in constants else None for name in names]


def _number(tensor: Any) -> int:
    import tensorflow as tf

    return int(tf.make_ndarray(tensor))
