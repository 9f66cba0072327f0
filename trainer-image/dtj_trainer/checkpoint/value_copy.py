"""The values of trackable objects at one moment, to be written later by another thread.

tf.train.Checkpoint reads and writes in one go. Here its own names and values are taken. Values are copied: TensorFlow
2.21 writes into buffers that it has handed out under MultiWorkerMirrored.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dtj_trainer.compat import tensorflow as compat

Writing = Callable[[Path], None]
"""Writes the files of a checkpoint that begin with a path; from any thread."""


def take(objects: Mapping[str, Any]) -> Writing | None:
    """What writes the present values of `objects`; None where TensorFlow has to write them itself, on this thread."""
    import tensorflow as tf

    checkpoint = tf.train.Checkpoint(**objects)  # held: its saver does not
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
