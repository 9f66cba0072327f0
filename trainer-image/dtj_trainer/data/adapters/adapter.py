"""Data adapters: one interface to every kind of data that a user may pass to `fit`, `train` or `evaluate`."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from dtj_trainer.data.adapters.array_adapter import ArrayAdapter
from dtj_trainer.data.adapters.array_data import ArrayData, class_weights_of_batch, holds_arrays
from dtj_trainer.data.adapters.batch_split import is_dataset, static_batch_size
from dtj_trainer.data.adapters.function_adapter import FunctionAdapter
from dtj_trainer.data.adapters.generator_adapter import GeneratorAdapter
from dtj_trainer.data.adapters.given_data import (
    ANY_LENGTH,
    EpochLength,
    GivenData,
    check_batched,
    is_generator,
    is_py_dataset,
    is_table,
)
from dtj_trainer.data.adapters.pipeline_adapter import PipelineAdapter
from dtj_trainer.data.adapters.py_dataset_adapter import PyDatasetAdapter
from dtj_trainer.data.adapters.tf_dataset_adapter import (
    INFINITE,
    UNKNOWN,
    TfDatasetAdapter,
    check_order,
    comes_from_python,
    first_batch_size,
)
from dtj_trainer.data.pipeline import Pipeline
from dtj_trainer.data.position import DataPosition
from dtj_trainer.data.sharding import BatchSize, Sharding
from dtj_trainer.data.sources.arrays import Arrays
from dtj_trainer.errors import PreflightFailed

EMPTY_VALIDATION = "the validation data is empty; check its files and filters"
DEFAULT_BATCH = 32
"""Keras' default."""


class DataAdapter(Protocol):
    """A kind of training or validation data, built once from the argument of the user."""

    batch_size: BatchSize
    reads_in_python: bool
    """Whether reading it needs this process, so that a TensorFlow server cannot read it."""
    batches_are_global: bool
    """Whether every process knows the global batches; else each has batches of its own."""
    passes_end: bool
    """Whether an epoch ends where a pass over the data ends; else it goes on in the next pass."""
    open_epochs: int
    """How many epochs may last until the data ends, which is seen by looking ahead; 0 if that cannot be seen."""

    @property
    def element_spec(self) -> Any:
        """Return the structure of one batch, as tf.TensorSpecs."""

    @property
    def batches_per_pass(self) -> int | None:
        """Return the batches in one pass over the data; None if its length is not known."""

    def batches_before(self, position: DataPosition) -> int:
        """Return how many batches of today's size come before `position`."""

    @property
    def fingerprint(self) -> str:
        """Return what must be equal in every process that shares the data, as text: its length."""

    def unread(self, position: DataPosition) -> int:
        """Return how many batches at the beginning of `dataset(position)` were trained already."""

    def dataset(self, position: DataPosition) -> Any:
        """Return a tf.data.Dataset with one element a local replica for each global batch.

        It begins `unread(position)` batches before `position`, and ends only if the data cannot be read again.

        The elements are batches if all replicas have equally many examples, else Shares.
        """

    def server_dataset(self, workers: int, index: int, position: DataPosition) -> Any:
        """Return an infinite Dataset that server `index` of `workers` reads itself, if not `reads_in_python`."""

    def evaluation_dataset(self) -> Any:
        """Return a finite tf.data.Dataset of this process's share, each example once.

        Its elements are batches, or Shares of global batches where there are several processes.
        """


def get_data_adapter(
    data: GivenData,
    sharding: Sharding,
    *,
    batch_size: int | None,
    per_replica_batch_size: int | None = None,
    shuffle: bool = True,
    seed: int = 0,
    length: EpochLength = ANY_LENGTH,
    counted_batches: Callable[[], int | None] = lambda: None,
) -> DataAdapter:
    """Return the adapter of training data.

    `counted_batches()` returns how many batches an earlier start of the job has counted in it.

    Raises:
        PreflightFailed: an unsupported kind of data; or arguments that do not go together.
    """
    x = data.x
    if per_replica_batch_size is not None and batch_size is not None:
        raise PreflightFailed("batch_size and per_replica_batch_size are given; give one of them")
    for name, given in (("batch_size", batch_size), ("per_replica_batch_size", per_replica_batch_size)):
        if given is not None and given < 1:
            raise PreflightFailed(f"{name} is {given}; it has to be 1 or more")
    if isinstance(x, ArrayData) or holds_arrays(x):
        arrays = x if isinstance(x, ArrayData) else ArrayData.of(x, data.y, data.sample_weight, data.class_weight)
        if batch_size is None and per_replica_batch_size is None and length.batches and length.most != length.batches:
            batch_size = -(-arrays.size // length.batches)
        size = _batch_size(sharding.replicas, batch_size, per_replica_batch_size)
        return ArrayAdapter(arrays, sharding, size, shuffle=bool(shuffle), seed=seed)
    check_batched(data)
    if isinstance(x, Arrays):
        size = _batch_size(sharding.replicas, batch_size, per_replica_batch_size)
        return ArrayAdapter(ArrayData.of(x.structure), sharding, size, shuffle=bool(shuffle), seed=seed)
    if is_table(x):
        x = Pipeline(x, shuffle=10_000 if shuffle else 0)
    if isinstance(x, Pipeline):
        size = _batch_size(sharding.replicas, batch_size, per_replica_batch_size)
        _check_divisible(size.total, sharding.replicas)
        return PipelineAdapter(x, sharding, size, seed=seed)
    if not (is_dataset(x) or is_py_dataset(x) or is_generator(x)):
        return FunctionAdapter(x, sharding)
    return _adapter_of_batches(
        data,
        sharding,
        _GivenSize(sharding, batch_size, per_replica_batch_size),
        shuffle=bool(shuffle),
        seed=seed,
        length=length,
        counted_batches=counted_batches,
    )


def split_for_validation(data: GivenData, share: float) -> tuple[GivenData, GivenData]:
    """Return the data of `fit` without its last part, and that part, as in Keras.

    Raises:
        PreflightFailed: it is not arrays, or one part would be empty.
    """
    if not holds_arrays(data.x):
        raise PreflightFailed(
            f"validation_split is for arrays, and x is a {type(data.x).__name__}; give validation_data="
        )
    if not 0 < share < 1:
        raise PreflightFailed(f"validation_split is {share}; it has to be between 0 and 1")
    weighted = ArrayData.of(data.x, data.y, data.sample_weight, data.class_weight)
    plain = weighted if data.class_weight is None else ArrayData.of(data.x, data.y, data.sample_weight)
    return GivenData(weighted.split(share)[0]), GivenData(plain.split(share)[1], name="validation_split")


def get_validation_adapter(
    data: GivenData, sharding: Sharding, batch_size: BatchSize, steps: int | None = None
) -> DataAdapter:
    """Return the adapter of data to evaluate, at most `steps` batches of it.

    `batch_size` is for data without batches.

    Raises:
        PreflightFailed: an unsupported kind of data; or it is infinite, or known to be empty.
    """
    x = data.x
    if isinstance(x, ArrayData | Arrays) or holds_arrays(x):
        if isinstance(x, ArrayData):
            arrays = x
        else:
            arrays = ArrayData.of(x.structure) if isinstance(x, Arrays) else ArrayData.of(x, data.y, data.sample_weight)
        size = batch_size if batch_size.total else BatchSize(-(-arrays.size // steps) if steps else DEFAULT_BATCH, None)
        return ArrayAdapter(arrays, sharding, size, most_batches=steps)
    check_batched(data)
    if is_table(x):
        x = Pipeline(x)
    if isinstance(x, Pipeline):
        return PipelineAdapter(x, sharding, batch_size, most_batches=steps)
    if is_py_dataset(x):
        found = PyDatasetAdapter(x, sharding, most_batches=steps)
        if found.batches_per_pass is None and steps is None:
            raise PreflightFailed(f"{data.name} never ends; give validation_steps=")
        return found
    if is_generator(x):
        return GeneratorAdapter(x, sharding, most_batches=steps)
    if is_dataset(x) and steps is not None:
        x = x.take(steps)
    adapter = TfDatasetAdapter(x, sharding, batch_size) if is_dataset(x) else FunctionAdapter(x, sharding)
    cardinality = int(adapter.given_dataset.cardinality())
    if cardinality == INFINITE:
        raise PreflightFailed(f"{data.name} never ends; give validation_steps=, or a Dataset without repeat()")
    if cardinality == 0 and is_dataset(x):  # of a function's, another process may have some
        raise PreflightFailed(EMPTY_VALIDATION)
    return adapter


def _adapter_of_batches(
    data: GivenData,
    sharding: Sharding,
    given_size: "_GivenSize",
    *,
    shuffle: bool,
    seed: int,
    length: EpochLength,
    counted_batches: Callable[[], int | None],
) -> DataAdapter:
    """Return the adapter of data that is batched by the global batch size."""
    x = data.x
    if is_py_dataset(x):
        weighted = _class_weights(data.class_weight)
        found = PyDatasetAdapter(
            x, sharding, shuffle=shuffle, seed=seed, epoch_batches=length.batches, weighted=weighted
        )
        given_size.check(found.first_batch_size, "keras.utils.PyDataset")
        return found
    if is_generator(x):
        read = GeneratorAdapter(x, sharding)
        given_size.check(read.first_batch_size, type(x).__name__)
        return read
    total = static_batch_size(x)
    if given_size.is_given:
        given_size.check(first_batch_size(x), "tf.data.Dataset")
    check_order(x, sharding)  # here, before processes wait for one another: each refuses by itself
    x = _class_weights(data.class_weight)(x)
    if length.batches and int(x.cardinality()) == UNKNOWN and comes_from_python(x):
        return GeneratorAdapter(x, sharding)
    return TfDatasetAdapter(
        x,
        sharding,
        BatchSize(total, None),
        given_batches=length.batches,
        most_batches=length.most,
        counted_batches=counted_batches,
    )


def _batch_size(replicas: int, batch_size: int | None, per_replica_batch_size: int | None) -> BatchSize:
    if per_replica_batch_size is not None:
        return BatchSize(per_replica_batch_size * replicas, None)
    return BatchSize(batch_size or DEFAULT_BATCH, batch_size)


def _check_divisible(total: int | None, replicas: int) -> None:
    if total is not None and total % replicas:
        raise PreflightFailed(
            f"a batch_size of {total} from a dtj.data.Pipeline cannot be divided among {replicas} replicas; "
            f"use {total // replicas * replicas or replicas} or {(total // replicas + 1) * replicas}, or give arrays"
        )


@dataclass(frozen=True, slots=True)
class _GivenSize:
    """The batch size that was given beside data that is batched."""

    sharding: Sharding
    batch_size: int | None
    per_replica_batch_size: int | None

    @property
    def is_given(self) -> bool:
        return self.batch_size is not None or self.per_replica_batch_size is not None

    def check(self, found: int, kind: str) -> None:
        """Refuse a size per replica that is not that of the first batch: the learning rate is scaled by it.

        Another global size is not used, as in Keras, which is said once.
        """
        each = self.per_replica_batch_size
        size = None if each is None else each * self.sharding.replicas
        if size is not None and found not in {0, size}:
            raise PreflightFailed(
                f"per_replica_batch_size={each} makes global batches of {size}, and those of the "
                f"{kind} have {found}; leave it out, or batch the {kind.rsplit('.', 1)[-1]} so"
            )
        if self.batch_size is not None and self.sharding.rank == 0 and found not in {0, self.batch_size}:
            print(  # noqa: T201 - for people
                f"dtj: batch_size={self.batch_size} is not used, because x is batched: its first batch has {found} "
                "examples",
                file=sys.stderr,
                flush=True,
            )


def _class_weights(class_weight: Any) -> Callable[[Any], Any]:
    """Return a function that adds the weight of each example's class, as sample weight, to a Dataset of batches."""
    import keras

    def weighted(*batch: Any) -> Any:
        x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
        if y is None or weight is not None or isinstance(y, tuple | dict):
            raise PreflightFailed("class_weight needs batches (x, y) with one output and without sample weights")
        return x, y, class_weights_of_batch(y, class_weight)

    return lambda dataset: dataset if class_weight is None else dataset.map(weighted)
