"""Tells an embedding of positions from one of the examples, by the graph that its gradient is part of.

An embedding of positions is looked up by the same indices whatever is in the batch: for the whole batch one process has
one row for each of them, to which all examples add up. An embedding of the examples has rows of each.
"""

from typing import Any, Final

from dtj_trainer.compat.types import Tensor

SHAPES: Final = frozenset({"Shape", "ShapeN", "Size", "Rank"})
"""Operations that tell the shape of a tensor and nothing of what is in it."""
SOURCES: Final = frozenset({"Placeholder", "PlaceholderWithDefault", "Arg", "_Arg"})
"""Operations by which something comes into a graph: batches, and variables."""


def is_of_positions(gradient: Any) -> bool:
    """Return whether this is the gradient of an embedding that was looked up once for all examples of the batch."""
    import tensorflow as tf

    if not isinstance(gradient, tf.IndexedSlices) or tf.executing_eagerly():
        return False
    indices = gradient.indices
    while indices.op.type in {"Reshape", "Identity", "Cast"}:  # a gradient's own: it has one index a row
        indices = indices.op.inputs[0]
    once = indices.shape.rank == 1 or (indices.shape.rank is not None and indices.shape[0] == 1)
    return once and not _depends_on_values(indices)


def _depends_on_values(tensor: Tensor) -> bool:
    """Return whether anything but shapes and constants can change this tensor."""
    waiting: list[Any] = [tensor.op]
    seen: set[int] = set()
    while waiting:
        op = waiting.pop()
        if id(op) in seen or op.type in SHAPES:
            continue
        seen.add(id(op))
        if op.type in SOURCES or (op.op_def is not None and op.op_def.is_stateful):
            return True
        waiting += [each.op for each in op.inputs]
    return False
