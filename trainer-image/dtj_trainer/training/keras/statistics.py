"""The moving statistics of replicas, and the model's other variables that no optimizer trains."""

from collections.abc import Callable

from dtj_trainer.compat import keras as compat
from dtj_trainer.compat.types import KerasVariable, Model, Strategy, Variable


def counters(model: Model) -> list[Variable]:
    """Return whole-number variables of the model: Keras hides its seed generators' states from tf.train.Checkpoint."""
    import tensorflow as tf

    return [v.value for v in model.non_trainable_variables if not tf.as_dtype(v.dtype).is_floating]


def moving_statistics(model: Model) -> list[KerasVariable]:
    """Return the variables that steps write in each replica by itself: no weights, and none of a frozen layer."""
    import tensorflow as tf

    frozen = {id(v) for layer in compat.all_layers(model) if not layer.trainable for v in layer.variables}
    floats = [v for v in model.non_trainable_variables if tf.as_dtype(v.dtype).is_floating]
    return [v for v in floats if id(v) not in frozen]


def statistics_sync(model: Model, strategy: Strategy) -> Callable[[], None]:
    """Return what averages moving statistics over replicas: Keras 3 lets them drift apart and saves the chief's alone.

    The averages are linear in what each replica saw, so it does not matter how often this is done.
    """
    import tensorflow as tf

    held = [v.value for v in moving_statistics(model)]

    def local() -> None:
        replica = tf.distribute.get_replica_context()
        means = replica.all_reduce(tf.distribute.ReduceOp.MEAN, [tf.identity(v) for v in held])
        for variable, mean in zip(held, means, strict=True):
            variable.assign(mean)

    @tf.function(autograph=False)
    def average() -> None:
        if held:
            strategy.run(local)

    synchronized: Callable[[], None] = average
    return synchronized
