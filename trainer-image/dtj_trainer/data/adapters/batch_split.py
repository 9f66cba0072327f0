"""Splits the batches of a tf.data.Dataset among processes and replicas."""

import warnings
from typing import Any

from dtj_trainer.data.sharding import Sharding
from dtj_trainer.errors import PreflightFailed

AUTOTUNE = -1


def is_dataset(data: Any) -> bool:
    """Return whether this is a tf.data.Dataset, or has its methods."""
    return hasattr(data, "element_spec") and hasattr(data, "cardinality")


def slice_of_each_batch(dataset: Any, sharding: Sharding) -> Any:
    """Return the slice of this process of each global batch; batches not divisible by the replicas are dropped."""
    import tensorflow as tf

    if sharding.replicas == 1:
        return dataset

    def own(*batch: Any) -> Any:
        part = batch_length(batch) // sharding.workers
        start = part * sharding.rank
        own_part = tf.nest.map_structure(lambda tensor: tensor[start : start + part], batch)
        return _as_element(own_part, dataset)

    dataset = keep_divisible(dataset, sharding.replicas)
    size = static_batch_size(dataset)
    dataset = dataset if sharding.workers == 1 else dataset.map(own, num_parallel_calls=AUTOTUNE)
    return dataset if size is None else _with_static_size(dataset, size // sharding.workers)


def keep_divisible(dataset: Any, parts: int) -> Any:
    """Return only the batches divisible into `parts`; if the first is not, reading it fails with PreflightFailed."""
    import tensorflow as tf

    size = static_batch_size(dataset)
    if size is not None:
        check_divisible(size, parts)
    if size is not None or parts == 1:
        return dataset

    def refuse(size: Any) -> bool:
        check_divisible(int(size), parts)
        return False

    def even(number: Any, batch: Any) -> Any:
        divides = batch_length(batch) % parts == 0
        return tf.cond(
            divides | (number > 0),
            lambda: divides,
            lambda: tf.ensure_shape(tf.numpy_function(refuse, [batch_length(batch)], tf.bool), []),
        )

    return dataset.enumerate().filter(even).map(lambda _, batch: batch, num_parallel_calls=AUTOTUNE)


def every_nth_example(dataset: Any, sharding: Sharding) -> Any:
    """Return every nth example of each batch, n = processes: no example is lost or read twice."""
    import tensorflow as tf

    if sharding.workers == 1:
        return dataset

    def own(*batch: Any) -> Any:
        part = tf.nest.map_structure(lambda tensor: tensor[sharding.rank :: sharding.workers], batch)
        return _as_element(part, dataset)

    return dataset.map(own)


def split_for_replicas(dataset: Any, replicas: int) -> Any:
    """Split each batch into `replicas` equal elements, one after the other."""
    import tensorflow as tf

    def cut(*batch: Any) -> Any:
        def rows(tensor: Any) -> Any:
            size, *rest = tensor.shape
            share = None if size is None else size // replicas
            shape = tf.concat([[replicas, -1 if share is None else share], tf.shape(tensor)[1:]], 0)
            return tf.ensure_shape(tf.reshape(tensor, shape), [replicas, share, *rest])

        return _as_element(tf.nest.map_structure(rows, batch), dataset)

    return dataset.map(cut).unbatch()


def skip_batches(dataset: Any, batches: int) -> Any:
    """Skip batches, with a warning that they are read and discarded."""
    if not batches:
        return dataset
    warnings.warn(
        f"a plain tf.data.Dataset resumes by reading past {batches} batches; dtj.data.Pipeline jumps there",
        stacklevel=3,
    )
    return dataset.skip(batches)


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


def batch_length(batch: Any) -> Any:
    """Return the number of examples of a batch, as an int64 tensor."""
    import tensorflow as tf

    return tf.shape(tf.nest.flatten(batch)[0], out_type=tf.int64)[0]


def static_batch_size(dataset: Any) -> int | None:
    """Return the size of all batches, if the element_spec of the Dataset has it.

    Raises:
        PreflightFailed: its elements are not batches.
    """
    import tensorflow as tf

    shapes = [spec.shape for spec in tf.nest.flatten(dataset.element_spec) if hasattr(spec, "shape")]
    if any(shape.rank == 0 for shape in shapes):
        raise PreflightFailed("the dataset is not batched; call .batch(global_batch) on it, or give a Pipeline")
    if not shapes or shapes[0].rank is None:
        return None
    return None if shapes[0][0] is None else int(shapes[0][0])


def check_divisible(total: int, replicas: int) -> None:
    """Refuse a batch size that is not divisible by the replicas."""
    if total % replicas:
        raise PreflightFailed(
            f"a global batch of {total} cannot be divided among {replicas} replicas; "
            f"use {total // replicas * replicas or replicas} or {(total // replicas + 1) * replicas}"
        )


def _with_static_size(dataset: Any, batch: int) -> Any:
    import tensorflow as tf

    def fix(*elements: Any) -> Any:
        fixed = tf.nest.map_structure(lambda t: tf.ensure_shape(t, [batch, *t.shape[1:]]), elements)
        return _as_element(fixed, dataset)

    return dataset.map(fix)


def _as_element(parts: Any, dataset: Any) -> Any:
    """Return the element from the arguments with which `dataset.map` calls a function."""
    return parts if isinstance(dataset.element_spec, tuple) else parts[0]
