"""Batches that Python code makes, as TensorFlow takes them."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dtj_trainer.compat.types import Structure
from dtj_trainer.data.adapters.array_data import to_arrays
from dtj_trainer.errors import PreflightFailed

SAMPLES = 2
"""Batches whose common structure is that of all, as in Keras: an axis whose length differs may have any."""


def to_batch(given: Any) -> Structure:
    """Return a batch as (x,), (x, y), (x, y, sample_weight), or a dict.

    Raises:
        PreflightFailed: it is something else.
    """
    if isinstance(given, dict):
        return to_arrays(_on_host(given))
    parts = tuple(given) if isinstance(given, tuple | list) else (given,)
    while len(parts) > 1 and parts[-1] is None:
        parts = parts[:-1]
    if len(parts) not in {1, 2, 3} or any(part is None for part in parts):
        raise PreflightFailed(
            f"a batch of x is a {type(given).__name__} of {len(parts)} parts; give (x,), (x, y), "
            "(x, y, sample_weight), or a dict"
        )
    return to_arrays(_on_host(parts))


def spec_of(samples: Sequence[Structure]) -> Structure:
    """Return the common structure of batches, as tf.TensorSpecs, for any number of examples.

    Raises:
        PreflightFailed: they have none.
    """
    import tensorflow as tf

    def spec(*arrays: Any) -> Any:
        shapes = [array.shape for array in arrays]
        axes = [set(lengths) for lengths in zip(*(shape[1:] for shape in shapes), strict=True)]
        shape = [None, *(axis.pop() if len(axis) == 1 else None for axis in axes)]
        first = arrays[0]
        if isinstance(first, tf.SparseTensor):
            return tf.SparseTensorSpec(shape, first.dtype)
        if isinstance(first, tf.RaggedTensor):
            return tf.RaggedTensorSpec(shape, first.dtype, first.ragged_rank, first.row_splits.dtype)
        return tf.TensorSpec(shape, tf.as_dtype(first.dtype))

    try:
        return tf.nest.map_structure(spec, *samples)
    except (TypeError, ValueError) as error:
        raise PreflightFailed(
            f"the first {len(samples)} batches of x differ in their structure; give all of them the same parts, and "
            "arrays with the same number of axes"
        ) from error


def batch_size_of(batch: Structure) -> int:
    """Return the number of examples of a batch."""
    import tensorflow as tf

    return int(tf.nest.flatten(batch)[0].shape[0])


def python_dataset(batches: Callable[[], Iterator[Structure]], spec: Structure) -> Any:
    """Return the tf.data.Dataset of the batches that `batches()` yields."""
    import tensorflow as tf

    return tf.data.Dataset.from_generator(batches, output_signature=spec)


def digest(samples: Sequence[Structure]) -> str:
    """Return 16 hex digits that differ if the values of the batches do."""
    import numpy as np
    import tensorflow as tf

    found = hashlib.sha256()
    for leaf in tf.nest.flatten(samples, expand_composites=True):
        array = np.asarray(leaf)
        found.update(str(array.tolist()).encode() if array.dtype == object else np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def _on_host(value: Any) -> Any:
    """Return a structure whose tensors of PyTorch are in the memory of the host."""
    if isinstance(value, dict):
        return {key: _on_host(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return tuple(map(_on_host, value))
    return value.detach().cpu() if type(value).__module__.split(".")[0] == "torch" else value
