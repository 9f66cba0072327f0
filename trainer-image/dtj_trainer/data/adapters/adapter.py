"""Data adapters: one interface to every kind of data that a user may pass to `fit` or `train`."""

from dataclasses import dataclass
from typing import Any, Protocol

from dtj_trainer.data.adapters.batch_split import check_divisible, is_dataset, static_batch_size
from dtj_trainer.data.adapters.function_adapter import FunctionAdapter
from dtj_trainer.data.adapters.pipeline_adapter import PipelineAdapter
from dtj_trainer.data.adapters.tf_dataset_adapter import INFINITE, TfDatasetAdapter, first_batch_size
from dtj_trainer.data.pipeline import Pipeline
from dtj_trainer.data.position import DataPosition
from dtj_trainer.data.sharding import BatchSize, Sharding
from dtj_trainer.errors import PreflightFailed

EMPTY_VALIDATION = "the validation data is empty; check its files and filters"


class DataAdapter(Protocol):
    """A kind of training or validation data, built once from the argument of the user."""

    batch_size: BatchSize
    reads_in_python: bool
    """Whether reading it needs this process, so that a TensorFlow server cannot read it."""

    @property
    def element_spec(self) -> Any:
        """Return the structure of one batch of this process, as tf.TensorSpecs."""

    @property
    def steps_per_epoch(self) -> int | None:
        """Return the steps in one pass over the data; None if its length is not known."""

    @property
    def fingerprint(self) -> str:
        """Return what must be equal in every process that shares the data, as text: its length."""

    def dataset(self, position: DataPosition) -> Any:
        """Return an infinite tf.data.Dataset of this process's batches from `position` on."""

    def server_dataset(self, workers: int, index: int, position: DataPosition) -> Any:
        """Return an infinite Dataset that server `index` of `workers` reads itself, if not `reads_in_python`."""

    def evaluation_dataset(self) -> Any:
        """Return a finite tf.data.Dataset of this process's share, each example once."""


@dataclass(frozen=True, slots=True)
class EpochLength:
    """The length of an epoch and of the training, as far as the caller gave it."""

    steps: int | None = None
    """Steps per epoch, if the caller gave them; then the dataset is not read to count them."""
    most: int | None = None
    """Steps of the whole training: an infinite dataset is read no further to count them."""

    @classmethod
    def of(cls, epochs: int | None, steps: int | None, steps_per_epoch: int | None) -> "EpochLength":
        """Return it from the arguments of `fit` and `train`."""
        return cls(steps_per_epoch or (steps if epochs is None else None), steps)


def get_data_adapter(
    data: Any,
    sharding: Sharding,
    *,
    global_batch_size: int | None,
    per_replica_batch_size: int | None,
    accumulate: int,
    seed: int,
    length: EpochLength,
) -> DataAdapter:
    """Return the adapter of training data.

    Raises:
        PreflightFailed: an unsupported kind of data; or a batch size that is missing, given twice, not divisible by
            the replicas, or not that of the Dataset's batches.
    """
    _check_kind("data", data)
    if isinstance(data, Pipeline):
        size = _pipeline_batch_size(sharding.replicas, global_batch_size, per_replica_batch_size)
        return PipelineAdapter(data, sharding, size, accumulate=accumulate, seed=seed)
    if not is_dataset(data):
        return FunctionAdapter(data, sharding)
    total = static_batch_size(data)
    if total is not None:
        check_divisible(total, sharding.replicas)
    _check_batch_size(data, sharding.replicas, global_batch_size, per_replica_batch_size)
    return TfDatasetAdapter(
        data, sharding, BatchSize(total, None), accumulate=accumulate, given_steps=length.steps, most_steps=length.most
    )


def get_validation_adapter(data: Any, sharding: Sharding, batch_size: BatchSize) -> DataAdapter:
    """Return the adapter of validation data; `batch_size` is that of the training, used for a Pipeline too.

    Raises:
        PreflightFailed: an unsupported kind of data; or it is infinite, or known to be empty.
    """
    _check_kind("validation", data)
    if isinstance(data, Pipeline):
        return PipelineAdapter(data, sharding, batch_size)
    adapter = TfDatasetAdapter(data, sharding, batch_size) if is_dataset(data) else FunctionAdapter(data, sharding)
    cardinality = int(adapter.given_dataset.cardinality())
    if cardinality == INFINITE:
        raise PreflightFailed("the validation dataset never ends; give a finite one, without repeat()")
    if cardinality == 0 and is_dataset(data):  # of a function's, another process may have some
        raise PreflightFailed(EMPTY_VALIDATION)
    return adapter


def _check_kind(argument: str, data: Any) -> None:
    if not (isinstance(data, Pipeline) or is_dataset(data) or callable(data)):
        raise PreflightFailed(
            f"{argument} is a {type(data).__name__}; give a dtj.data.Pipeline, a tf.data.Dataset of global batches, or "
            "fn(ctx); for arrays, dtj.data.Pipeline(dtj.data.numpy(x, y))"
        )


def _pipeline_batch_size(replicas: int, global_batch_size: int | None, per_replica_batch_size: int | None) -> BatchSize:
    if (global_batch_size is None) == (per_replica_batch_size is None):
        raise PreflightFailed(
            "dtj.data.Pipeline needs a batch size; give exactly one of global_batch_size= and per_replica_batch_size="
        )
    if per_replica_batch_size is not None:
        return BatchSize(_positive(per_replica_batch_size) * replicas, None)
    assert global_batch_size is not None
    check_divisible(_positive(global_batch_size), replicas)
    return BatchSize(global_batch_size, global_batch_size)


def _check_batch_size(
    dataset: Any, replicas: int, global_batch_size: int | None, per_replica_batch_size: int | None
) -> None:
    """Refuse a batch size that is not that of the Dataset's batches: the learning rate is scaled by it."""
    sizes = {"global_batch_size": (global_batch_size, 1), "per_replica_batch_size": (per_replica_batch_size, replicas)}
    for name, (size, times) in sizes.items():
        if size is not None and (found := first_batch_size(dataset)) and found != size * times:
            raise PreflightFailed(
                f"{name}={size} makes global batches of {size * times}, and those of the tf.data.Dataset have "
                f"{found}; leave it out, or batch the Dataset so"
            )


def _positive(size: int) -> int:
    if size < 1:
        raise PreflightFailed(f"a batch of {size} is impossible; use 1 or more")
    return size
