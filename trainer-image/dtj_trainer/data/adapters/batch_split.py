"""Splits global batches among processes and replicas, as evenly as possible: each example goes to one replica."""

from typing import Any, NamedTuple

from dtj_trainer.compat.types import Structure, Tensor
from dtj_trainer.data.adapters.tensor_rows import batch_length, every_nth_row, row_range
from dtj_trainer.data.sharding import Sharding
from dtj_trainer.errors import PreflightFailed

AUTOTUNE = -1


class Share(NamedTuple):
    """The part of a global batch that one replica takes."""

    batch: Structure
    examples: Tensor
    """Their number; 0 where a batch has fewer examples than there are replicas: for training `batch` is all of it then,
    because a step cannot be computed from nothing, and counts for nothing."""
    total: Tensor | None
    """The number of examples of the global batch; None if each process reads data of its own."""


def is_dataset(data: Any) -> bool:
    """Return whether this is a tf.data.Dataset, or has its methods."""
    return hasattr(data, "element_spec") and hasattr(data, "cardinality")


def splits_evenly(size: int | None, replicas: int) -> bool:
    """Return whether batches of this size, or of unknown sizes if None, can be divided into equal parts."""
    return replicas == 1 or (size is not None and size % replicas == 0)


def split_for_replicas(dataset: Any, sharding: Sharding, size: int | None) -> Any:
    """Return the parts of this process's replicas, one element a replica, of a Dataset of global batches.

    The elements are batches where all have `size` examples and the replicas divide it, else Shares.
    """
    if not splits_evenly(size, sharding.replicas):
        return _shares(dataset, sharding.replicas, sharding.first_replica, sharding.local_replicas)
    if size is None or sharding.replicas == 1:
        return dataset
    if sharding.workers > 1:
        dataset = dataset.map(_range_of(sharding.rank, size // sharding.workers, dataset), num_parallel_calls=AUTOTUNE)
    return _equal_parts(dataset, sharding.local_replicas, size // sharding.workers)


def split_own_for_replicas(dataset: Any, local_replicas: int) -> Any:
    """Return the same of a Dataset whose batches belong to this process alone."""
    size = static_batch_size(dataset)
    if splits_evenly(size, local_replicas):
        return dataset if local_replicas == 1 else _equal_parts(dataset, local_replicas, size)
    return _shares(dataset, local_replicas, 0, local_replicas)


def part_of(examples: Tensor, number: Tensor, parts: int) -> tuple[Tensor, Tensor]:
    """Return start and end of part `number` when `examples` are divided into `parts`; the first ones are larger."""
    import tensorflow as tf

    size, larger = examples // parts, examples % parts
    start = number * size + tf.minimum(number, larger)
    return start, start + size + tf.cast(number < larger, tf.int64)


def split_for_processes(dataset: Any, sharding: Sharding) -> Any:
    """Return the Share of this process of each global batch: every nth example; all batches where it is alone."""
    if sharding.workers == 1:
        return dataset

    def own(*batch: Any) -> Share:
        rows = every_nth_row(batch, sharding.rank, sharding.workers)
        return Share(as_element(rows, dataset), batch_length(rows), batch_length(batch))

    return dataset.map(own)


def without_autotune(dataset: Any) -> Any:
    """Turn off TensorFlow's autotuning, unless the user has set it.

    Each validation has its own iterator, and deleting an autotuned one sometimes takes as long as it has existed,
    because the autotuning thread misses that it should end (TensorFlow 2.21).
    """
    import tensorflow as tf

    if dataset.options().autotune.enabled is not None:
        return dataset
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def static_batch_size(dataset: Any) -> int | None:
    """Return the size of all batches, if the element_spec of the Dataset has it.

    Raises:
        PreflightFailed: its elements are not batches.
    """
    import tensorflow as tf

    shapes = [spec.shape for spec in tf.nest.flatten(dataset.element_spec) if hasattr(spec, "shape")]
    if any(shape.rank == 0 for shape in shapes):
        raise PreflightFailed("the dataset is not batched; call .batch(batch_size) on it, or give a Pipeline")
    if not shapes or shapes[0].rank is None:
        return None
    return None if shapes[0][0] is None else int(shapes[0][0])


def as_element(parts: Any, dataset: Any) -> Any:
    """Return the element from the arguments with which `dataset.map` calls a function."""
    return parts if isinstance(dataset.element_spec, tuple) else parts[0]


def _shares(dataset: Any, replicas: int, first: int, local: int) -> Any:
    """Return a Share for each of the replicas `first` to `first` + `local` of each batch."""
    import tensorflow as tf

    def share(number: Tensor, batch: Structure) -> Share:
        total = batch_length(batch)
        start, stop = part_of(total, number, replicas)
        empty = start == stop
        rows = row_range(batch, tf.where(empty, tf.zeros_like(start), start), tf.where(empty, total, stop))
        return Share(as_element(rows, dataset), stop - start, total)

    def of_each_replica(*batch: Any) -> Any:
        return tf.data.Dataset.range(first, first + local).map(lambda number: share(number, batch))

    if local == 1:
        return dataset.map(lambda *batch: share(tf.constant(first, tf.int64), batch), num_parallel_calls=AUTOTUNE)
    return dataset.flat_map(of_each_replica)


def _range_of(rank: int, size: int, dataset: Any) -> Any:
    """Return a function that returns the part of process `rank` of a batch, `size` examples."""
    import tensorflow as tf

    def own(*batch: Any) -> Any:
        start = tf.constant(rank * size, tf.int64)
        return as_element(row_range(batch, start, start + size), dataset)

    return own


def _equal_parts(dataset: Any, parts: int, size: int | None) -> Any:
    """Cut each batch of `size` examples into `parts` elements, one after the other, of a known shape."""
    import tensorflow as tf

    assert size is not None
    each = size // parts

    def fixed(part: Structure) -> Structure:
        def shaped(tensor: Tensor) -> Tensor:
            return tf.ensure_shape(tensor, [each, *tensor.shape[1:]]) if isinstance(tensor, tf.Tensor) else tensor

        return tf.nest.map_structure(shaped, part)

    def cut(*batch: Any) -> Any:
        def rows(tensor: Tensor) -> Tensor:
            return tf.reshape(tensor, tf.concat([[parts, each], tf.shape(tensor)[1:]], 0))

        return as_element(tf.nest.map_structure(rows, batch), dataset)

    def of_each_replica(*batch: Any) -> Any:
        def part(number: Tensor) -> Any:
            return as_element(fixed(row_range(batch, number * each, (number + 1) * each)), dataset)

        return tf.data.Dataset.range(parts).map(part)

    if parts == 1:
        return dataset.map(lambda *batch: as_element(fixed(batch), dataset))
    if all(isinstance(spec, tf.TensorSpec) for spec in tf.nest.flatten(dataset.element_spec)):
        split = dataset.map(cut).unbatch()
        return split.map(lambda *part: as_element(fixed(part), split))
    return dataset.flat_map(of_each_replica)
