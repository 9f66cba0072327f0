"""The private names of TensorFlow's iterators over tf.data.Datasets, each with the version that has it."""

from typing import Any

from dtj_trainer.compat.types import Dataset


def can_seek(iterator: Any) -> bool:
    """Return whether a trace with this iterator can continue with another dataset of the same structure.

    True of plain iterators; TensorFlow's distributed ones have no such name. Seen in 2.21.
    """
    return getattr(iterator, "_iterator_resource", None) is not None


def iterator_state(iterator: Any) -> bytes:
    """Return the state of an iterator that `can_seek`. Seen in 2.21.

    Raises:
        tf.errors.OpError: TensorFlow cannot save it, for example because Python code yields the elements.
    """
    import tensorflow as tf

    state = tf.raw_ops.SerializeIterator(resource_handle=iterator._iterator_resource)  # noqa: SLF001
    found: bytes = tf.io.serialize_tensor(state).numpy()
    return found


def restore_iterator(iterator: Any, state: bytes) -> None:
    """Set the state of an iterator of the same dataset. Seen in 2.21.

    Raises:
        tf.errors.OpError: it is that of another dataset; the iterator is of no use then.
    """
    import tensorflow as tf

    serialized = tf.io.parse_tensor(state, tf.variant)
    tf.raw_ops.DeserializeIterator(resource_handle=iterator._iterator_resource, serialized=serialized)  # noqa: SLF001


def restart_iterator(iterator: Any, dataset: Dataset) -> None:
    """Make an iterator that `can_seek` read another dataset from its beginning. Seen in 2.21."""
    import tensorflow as tf

    tf.raw_ops.MakeIterator(dataset=tf.data.experimental.to_variant(dataset), iterator=iterator._iterator_resource)  # noqa: SLF001
