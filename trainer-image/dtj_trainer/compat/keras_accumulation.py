"""Keras' own `gradient_accumulation_steps` and `ema_overwrite_frequency` on several replicas, where Keras itself cannot
trace them: it leaves the replica context inside of a condition, which TensorFlow refuses. Here the condition is inside
of what leaves it. Seen in 3.12 (the first) and 3.15.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from dtj_trainer.compat.types import Tensor


@contextmanager
def accumulation_over_replicas(optimizers: Sequence[Any]) -> Iterator[None]:
    """Let optimizers inside accumulate gradients that are equal on all replicas."""
    accumulating = [each for each in optimizers if getattr(each, "gradient_accumulation_steps", None)]
    for each in accumulating:
        each._backend_apply_gradients = partial(_apply, each)  # noqa: SLF001
    try:
        yield
    finally:
        for each in accumulating:
            del each._backend_apply_gradients  # noqa: SLF001


@contextmanager
def overwrites_over_replicas(optimizers: Sequence[Any]) -> Iterator[None]:
    """Let optimizers inside overwrite the weights by their averages, which are equal on all replicas."""
    frequencies = {
        id(each): each.ema_overwrite_frequency
        for each in optimizers
        if getattr(each, "use_ema", False) and each.ema_overwrite_frequency
    }
    overwriting = [each for each in optimizers if id(each) in frequencies]
    for each in overwriting:
        each.ema_overwrite_frequency = None
        each._update_model_variables_moving_average = partial(_average, each, frequencies[id(each)])  # noqa: SLF001
    try:
        yield
    finally:
        for each in overwriting:
            each.ema_overwrite_frequency = frequencies[id(each)]
            del each._update_model_variables_moving_average  # noqa: SLF001


def _average(optimizer: Any, frequency: int, variables: Sequence[Any]) -> None:
    """Update the averages of variables, and overwrite these by them at each `frequency`th step; in replica context."""
    import tensorflow as tf

    type(optimizer)._update_model_variables_moving_average(optimizer, variables)  # noqa: SLF001
    averages = optimizer._model_variables_moving_average  # noqa: SLF001
    pairs = [(each, average) for each, average in zip(variables, averages, strict=True) if average is not None]
    ends = tf.equal((optimizer._iterations.value + 1) % frequency, 0)  # noqa: SLF001
    tf.distribute.get_replica_context().merge_call(partial(_overwrite_merged, pairs=pairs), args=(ends,))


def _overwrite_merged(strategy: Any, ends: Any, *, pairs: Sequence[tuple[Any, Any]]) -> None:
    """Do so for all replicas, in cross-replica context."""
    import tensorflow as tf

    def overwrite() -> None:
        for each, average in pairs:
            strategy.extended.update(each.value, lambda held, value: held.assign(value), (average.value,), group=False)

    tf.cond(strategy.experimental_local_results(ends)[0], overwrite, lambda: None)


def _apply(optimizer: Any, gradients: Sequence[Tensor], variables: Sequence[Any]) -> None:
    """Add gradients to the accumulators, or update the variables by their mean; in replica context."""
    import tensorflow as tf

    steps = optimizer.gradient_accumulation_steps
    held = [optimizer._accumulated_gradients[optimizer._get_variable_index(each)] for each in variables]  # noqa: SLF001
    sums = [gradient + each for gradient, each in zip(gradients, held, strict=True)]
    ends = tf.equal((optimizer._iterations.value + 1) % steps, 0)  # noqa: SLF001
    means = optimizer._clip_gradients([each / steps for each in sums])  # noqa: SLF001
    tf.distribute.get_replica_context().merge_call(
        partial(_apply_merged, optimizer=optimizer, variables=variables, held=held),
        args=(ends, sums, means, optimizer.learning_rate),
    )
    if optimizer.use_ema:
        optimizer._update_model_variables_moving_average(optimizer._trainable_variables)  # noqa: SLF001


def _apply_merged(
    strategy: Any,
    ends: Any,
    sums: Sequence[Any],
    means: Sequence[Any],
    rate: Any,
    *,
    optimizer: Any,
    variables: Sequence[Any],
    held: Sequence[Any],
) -> None:
    """Do so for all replicas, in cross-replica context."""
    import tensorflow as tf

    update = partial(strategy.extended.update, group=False)

    def update_variables() -> None:
        if optimizer.weight_decay is not None:
            for each in filter(optimizer._use_weight_decay, variables):  # noqa: SLF001
                update(
                    each.value, lambda held, by: held.assign_sub(held * _as(optimizer.weight_decay * by, held)), (rate,)
                )
        pairs = [(mean, each.value) for mean, each in zip(means, variables, strict=True)]
        optimizer._distributed_tf_update_step(strategy, pairs, rate)  # noqa: SLF001
        for each in held:
            update(each.value, lambda accumulator: accumulator.assign(tf.zeros_like(accumulator)))

    def accumulate() -> None:
        for each, total in zip(held, sums, strict=True):
            update(each.value, lambda accumulator, value: accumulator.assign(value), (total,))

    tf.cond(strategy.experimental_local_results(ends)[0], update_variables, accumulate)


def _as(number: Any, like: Any) -> Tensor:
    import tensorflow as tf

    return tf.cast(number, like.dtype)
