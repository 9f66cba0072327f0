"""Gradients: added over batches and replicas, scaled and clipped; those of embeddings too, which are sparse."""

from collections.abc import Callable, Sequence
from functools import reduce

from dtj_trainer.compat.types import Tensor
from dtj_trainer.training.keras.position_lookups import is_of_positions

Gradient = Tensor | None
"""None where a loss does not depend on a variable."""


def add(gradients: Sequence[Sequence[Gradient]]) -> list[Gradient]:
    """Return the sum over batches of the gradients of each."""
    if len(gradients) == 1:
        return list(gradients[0])
    return [reduce(_add, parts) for parts in zip(*gradients, strict=True)]


def sum_over_replicas(gradients: Sequence[Gradient]) -> list[Gradient]:
    """Return the sums over all replicas; in replica context.

    Of an embedding of the examples they are the rows of all replicas, of one of positions one row for each position.
    """
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()

    def summed(present: list[Tensor]) -> list[Tensor]:
        # Only rows whose number is known are surely as many on every replica.
        dense = [is_of_positions(each) and each.values.shape.is_fully_defined() for each in present]
        given = [each.values if alone else each for each, alone in zip(present, dense, strict=True)]
        sums = replica.all_reduce(tf.distribute.ReduceOp.SUM, given)
        return [
            tf.IndexedSlices(total, each.indices, each.dense_shape)
            if alone
            else _once_for_each_entry(total)
            if is_of_positions(each)
            else total
            for each, total, alone in zip(present, sums, dense, strict=True)
        ]

    return _of_present(gradients, summed)


def have_unknown_rows(gradients: Sequence[Gradient]) -> bool:
    """Return whether one is an embedding's with a number of rows that may differ between steps."""
    import tensorflow as tf

    sparse = [each for each in gradients if isinstance(each, tf.IndexedSlices)]
    return any(not each.values.shape.is_fully_defined() for each in sparse)


def clip(gradients: Sequence[Gradient], limit: Tensor) -> list[Gradient]:
    """Return the gradients scaled so that their global norm is at most `limit`."""
    import tensorflow as tf

    def clipped(present: list[Tensor]) -> list[Tensor]:
        norm = tf.linalg.global_norm([_numbers(gradient) for gradient in present])
        found: list[Tensor] = tf.clip_by_global_norm(present, limit, use_norm=norm)[0]
        return found

    return _of_present(gradients, clipped)


def scale(gradients: Sequence[Gradient], factor: float) -> list[Gradient]:
    """Return the gradients times `factor`."""
    return [None if gradient is None else _scale(gradient, factor) for gradient in gradients]


def _of_present(gradients: Sequence[Gradient], function: Callable[[list[Tensor]], list[Tensor]]) -> list[Gradient]:
    changed = iter(function([gradient for gradient in gradients if gradient is not None]))
    return [None if gradient is None else next(changed) for gradient in gradients]


def _add(a: Gradient, b: Gradient) -> Gradient:
    import tensorflow as tf

    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, tf.IndexedSlices) and isinstance(b, tf.IndexedSlices):  # as of one larger batch
        once = is_of_positions(a) and is_of_positions(b)
        if once and a.values.shape.is_fully_defined() and a.values.shape == b.values.shape:
            return tf.IndexedSlices(a.values + b.values, a.indices, a.dense_shape)
        values, indices = tf.concat([a.values, b.values], 0), tf.concat([a.indices, b.indices], 0)
        both = tf.IndexedSlices(values, indices, a.dense_shape)
        return _once_for_each_entry(both) if once else both
    return tf.convert_to_tensor(a) + tf.convert_to_tensor(b)


def _numbers(gradient: Tensor) -> Tensor:
    """Return a gradient's numbers. Of an embedding it has a row for each use, and those of one entry count together."""
    import tensorflow as tf

    return _once_for_each_entry(gradient).values if isinstance(gradient, tf.IndexedSlices) else gradient


def _once_for_each_entry(gradient: Tensor) -> Tensor:
    """Return the gradient of an embedding with one row for each entry."""
    import tensorflow as tf

    entries, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(entries))
    return tf.IndexedSlices(values, entries, gradient.dense_shape)


def _scale(gradient: Tensor, factor: float) -> Tensor:
    import tensorflow as tf

    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values * tf.cast(factor, gradient.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(factor, gradient.dtype)
