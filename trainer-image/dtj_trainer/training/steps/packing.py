"""Packs a structure of tensors into one vector and back; the only module that knows positions in a vector.

One vector needs one all-reduce, and one copy to Python. Its numbers are float64. A packed part may stand for its
structure: `pack((pack(a), b))` is `pack((a, b))`.
"""

import math
from typing import TypeVar

from dtj_trainer.compat.types import Array, Strategy, Structure, Tensor

T = TypeVar("T")


def pack(structure: Structure) -> Tensor:
    """Return all numbers of a structure of tensors, flat, in the order of `tf.nest`."""
    import tensorflow as tf

    flat = [tf.reshape(tf.cast(part, tf.float64), [-1]) for part in tf.nest.flatten(structure)]
    return tf.concat(flat, 0) if flat else tf.zeros([0], tf.float64)


def unpack(vector: Array, like: T) -> T:
    """Return the parts of a packed vector, an array by now, in the structure and shapes of `like`, tf.TensorSpecs."""
    import tensorflow as tf

    parts, at = [], 0
    for spec in tf.nest.flatten(like):
        end = at + math.prod(spec.shape)
        parts.append(vector[at:end].reshape(tuple(spec.shape)))
        at = end
    found: T = tf.nest.pack_sequence_as(like, parts)
    return found


def size(like: Structure) -> int:
    """Return the length of the vector of a structure of specs, whose shapes are known."""
    import tensorflow as tf

    return sum(math.prod(spec.shape) for spec in tf.nest.flatten(like))


def specs(structure: T) -> T:
    """Return the tf.TensorSpecs of a structure of tensors, to unpack with."""
    import tensorflow as tf

    found: T = tf.nest.map_structure(lambda part: tf.TensorSpec(part.shape, part.dtype), structure)
    return found


def sum_over_processes(strategy: Strategy, vector: Tensor, *, local_replicas: int) -> Tensor:
    """Return the sum of the vectors of all processes, by one all-reduce; every process calls it, in a tf.function."""
    import tensorflow as tf

    def share(part: Tensor) -> Tensor:
        replica = tf.distribute.get_replica_context()
        return replica.all_reduce(tf.distribute.ReduceOp.SUM, part / local_replicas)

    return strategy.experimental_local_results(strategy.run(share, args=(vector,)))[0]
