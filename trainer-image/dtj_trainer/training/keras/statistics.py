"""The moving statistics of replicas, and the model's other variables that no optimizer trains."""

from collections.abc import Callable

from dtj_trainer.compat.types import Model, Strategy, Variable


def counters(model: Model) -> list[Variable]:
    """Return whole-number variables of the model: Keras hides its seed generators' states from tf.train.Checkpoint."""
    import tensorflow as tf

    return [v.value for v in model.non_trainable_variables if not tf.as_dtype(v.dtype).is_floating]


def statistics_sync(model: Model, strategy: Strategy) -> Callable[[], None]:
    """Return what averages moving statistics over replicas: Keras 3 lets them drift apart and saves the chief's alone.

    The averages are linear in what each replica saw, so it does not matter how often this is done.
    """
    import tensorflow as tf

    held = [v.value for v in model.non_trainable_variables if tf.as_dtype(v.dtype).is_floating]

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
