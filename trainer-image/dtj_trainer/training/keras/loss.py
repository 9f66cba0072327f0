"""The loss of one replica, as in one process.

Keras gives a loss its share, 1 / replicas, where it reduces it itself, and lets through what is one number already: the
result of a loss function, or of a model's own `compute_loss`. With N replicas such a loss would train with N times the
gradient. So each replica computes its loss as if there were no other, and the caller takes the share of the whole: the
part of the examples that the replica has.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from dtj_trainer.compat import keras_losses
from dtj_trainer.compat.types import Strategy, Tensor
from dtj_trainer.context import TrainContext
from dtj_trainer.data.adapters.batch_split import Share


@contextmanager
def as_one_replica(strategy: Strategy, local_replicas: int) -> Iterator[None]:
    """Compute a loss inside as if there were one replica.

    A variable that each replica has its own part of (ON_READ) may not be written inside: to TensorFlow this is the
    default strategy, and every part would be written.
    """
    import tensorflow as tf

    if strategy.num_replicas_in_sync == 1:
        yield
        return
    here = tf.distribute.get_replica_context()
    number = 0 if here is None else tf.get_static_value(here.replica_id_in_sync_group)
    number = here.replica_id_in_sync_group if number is None else int(number) % local_replicas
    with tf.Graph().as_default():  # no strategy is set in a new graph
        default = tf.distribute.get_strategy()
    with tf.distribute.ReplicaContext(default, number):
        yield


@contextmanager
def of_share(share: Share, part: Tensor | None, context: TrainContext) -> Iterator[None]:
    """Compute losses inside so that `part` of each, this replica's of all examples, adds up to the whole."""
    import tensorflow as tf

    sums = None if part is None else tf.math.divide_no_nan(1.0, part)  # sums add up: undoes the part taken of them
    replica = tf.distribute.get_replica_context() if context.replicas > 1 else None
    with keras_losses.scaled(sums=sums, examples=share.examples, context=replica):
        yield
