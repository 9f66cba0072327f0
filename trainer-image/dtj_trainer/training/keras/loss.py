"""The loss of one replica, as in one process.

Keras gives a loss its share, 1 / replicas, where it reduces it itself, and lets through what is one number already: the
result of a loss function, or of a model's own `compute_loss`. With N replicas such a loss would train with N times the
gradient. So each replica computes its loss as if there were no other, and the caller takes the share of the whole: the
part of the examples that the replica has.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dtj_trainer.compat import keras_losses
from dtj_trainer.compat.types import Strategy, Tensor
from dtj_trainer.context import TrainContext
from dtj_trainer.data.adapters.batch_split import Share

Addition = Callable[[list[Tensor]], list[Tensor]]
"""Adds up numbers over replicas; each of them calls it."""


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
def of_share(share: Share, part: Tensor | None, context: TrainContext, *, adds_up: bool = False) -> Iterator[None]:
    """Compute losses inside so that `part` of each, this replica's of all examples, adds up to the whole.

    `adds_up`: also of one that has a number for each example, whose sum is differentiated.
    """
    add = _addition_over_all(context)
    with keras_losses.scaled(sums=whole(part), examples=share.examples, add=add, adds_up=adds_up):
        yield


@contextmanager
def of_evaluated_share(share: Share, context: TrainContext) -> Iterator[Tensor | None]:
    """Compute losses inside so that, as means over examples, they add up over replicas to that of the batch.

    Yields the part that this replica has of the batch's examples; None if it has all. A process that evaluates data of
    its own takes its batches alone for the whole.
    """
    import tensorflow as tf

    add = _addition_over_all(context)
    if add is not None and share.total is None:
        add = _addition_here(context)
    examples = tf.cast(share.examples, tf.float32)
    part = None
    if add is not None:
        total = add([examples])[0] if share.total is None else tf.cast(share.total, tf.float32)
        part = tf.math.divide_no_nan(examples, total)
    with keras_losses.scaled(sums=whole(part), examples=examples, add=add):
        yield part


def whole(part: Tensor | None) -> Tensor | None:
    """Return what undoes that a part is taken of a loss: sums add up."""
    import tensorflow as tf

    return None if part is None else tf.math.divide_no_nan(1.0, part)


def _addition_over_all(context: TrainContext) -> Addition | None:
    """Return what adds up numbers over all replicas; None in a step that has none beside it."""
    import tensorflow as tf

    replica = tf.distribute.get_replica_context() if context.replicas > 1 else None
    if replica is None:
        return None

    def add(numbers: list[Tensor]) -> list[Tensor]:
        with replica:
            found: list[Tensor] = replica.all_reduce(tf.distribute.ReduceOp.SUM, numbers)
            return found

    return add


def _addition_here(context: TrainContext) -> Addition:
    """Return what adds up numbers over this process's replicas, times the processes: the others have as much."""
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()

    def added(strategy: Strategy, *numbers: Tensor) -> list[Tensor]:
        return [context.workers * tf.add_n(strategy.experimental_local_results(each)) for each in numbers]

    def add(numbers: list[Tensor]) -> list[Tensor]:
        with replica:
            found: list[Tensor] = replica.merge_call(added, args=tuple(numbers))
            return found

    return add
