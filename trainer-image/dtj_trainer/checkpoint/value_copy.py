"""Copies the values of trackable objects, so that another thread can write them while the training continues.

tf.train.Checkpoint reads and writes in one call; here names and values are read first and written later. Values are
copied because under MultiWorkerMirrored TensorFlow 2.21 overwrites buffers that it has returned.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from dtj_trainer.compat import tensorflow as compat

Write = Callable[[Path], None]
"""Writes the files of a checkpoint, whose names begin with a path; from any thread."""


def copy_values(objects: Mapping[str, object]) -> Write | None:
    """Copy the current values of `objects`; return what writes them.

    None if TensorFlow has to write them itself, on this thread.
    """
    import tensorflow as tf

    checkpoint = tf.train.Checkpoint(**objects)  # kept alive here: its saver does not
    tensors = compat.checkpoint_tensors(checkpoint)
    if tensors is None:
        return None
    try:
        parts = [(name, piece, tf.raw_ops.DeepCopy(x=value)) for name, piece, value in tensors]
    except tf.errors.OpError:  # a type that TensorFlow cannot copy
        return None

    def write(prefix: Path) -> None:
        with tf.device("/device:CPU:0"):
            tf.raw_ops.SaveV2(
                prefix=str(prefix),
                tensor_names=[name for name, _, _ in parts],
                shape_and_slices=[piece for _, piece, _ in parts],
                tensors=[value for _, _, value in parts],
            )

    return write
