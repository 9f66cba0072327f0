"""The examples of a tensor, dense, ragged or sparse: their number, a range of them, and any of them in any order."""

from typing import Any

from dtj_trainer.compat.types import Structure, Tensor


def batch_length(batch: Structure) -> Tensor:
    """Return the number of examples of a batch, as an int64 tensor."""
    return row_count(_first(batch))


def row_count(tensor: Tensor) -> Tensor:
    """Return the length of the first axis, as an int64 tensor."""
    import tensorflow as tf

    if isinstance(tensor, tf.SparseTensor):
        return tensor.dense_shape[0]
    if isinstance(tensor, tf.RaggedTensor):
        return tensor.nrows(out_type=tf.int64)
    return tf.shape(tensor, out_type=tf.int64)[0]


def row_range(batch: Structure, start: Tensor, stop: Tensor) -> Structure:
    """Return the examples `start` to `stop` of each tensor of a batch."""
    import tensorflow as tf

    def rows(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, tf.SparseTensor):
            return tensor[start:stop]
        rank = tf.size(tensor.dense_shape)
        first = tf.concat([[start], tf.zeros([rank - 1], tf.int64)], 0)
        size = tf.concat([[stop - start], tensor.dense_shape[1:]], 0)
        return _with_static_columns(tf.sparse.slice(tensor, first, size), tensor)

    return tf.nest.map_structure(rows, batch)


def every_nth_row(batch: Structure, first: Tensor, step: int) -> Structure:
    """Return the examples `first`, `first` + `step`, … of each tensor of a batch."""
    import tensorflow as tf

    def rows(tensor: Tensor) -> Tensor:
        if isinstance(tensor, tf.Tensor):
            return tensor[first::step]
        numbers = tf.range(tf.cast(first, tf.int64), row_count(tensor), step)
        return take_rows(tensor, numbers)

    return tf.nest.map_structure(rows, batch)


def take_rows(tensor: Tensor, numbers: Tensor) -> Tensor:
    """Return the examples with these numbers, in their order."""
    import tensorflow as tf

    if not isinstance(tensor, tf.SparseTensor):
        return tf.gather(tensor, numbers)
    rows = tensor.indices[:, 0]  # in ascending order, as TensorFlow wants it
    starts, ends = tf.searchsorted(rows, numbers, "left"), tf.searchsorted(rows, numbers, "right")
    places = tf.ragged.range(starts, ends)
    indices = tf.gather(tensor.indices, places.flat_values)
    indices = tf.concat([places.value_rowids()[:, None], indices[:, 1:]], 1)
    shape = tf.concat([[tf.size(numbers, out_type=tf.int64)], tensor.dense_shape[1:]], 0)
    return _with_static_columns(tf.SparseTensor(indices, tf.gather(tensor.values, places.flat_values), shape), tensor)


def _with_static_columns(found: Any, like: Any) -> Any:
    """Return a sparse tensor that knows the shape of an example, as far as `like` does."""
    import tensorflow as tf

    shape = tf.concat([found.dense_shape[:1], like.dense_shape[1:]], 0)
    constant = tf.get_static_value(like.dense_shape)
    if constant is not None:
        shape = tf.concat([found.dense_shape[:1], tf.constant(constant[1:], tf.int64)], 0)
    return tf.SparseTensor(found.indices, found.values, shape)


def _first(batch: Structure) -> Tensor:
    import tensorflow as tf

    return tf.nest.flatten(batch)[0]
