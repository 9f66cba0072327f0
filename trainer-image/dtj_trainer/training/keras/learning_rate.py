"""Linear scaling of the learning rate when the global batch grows, with a warm-up.

Goyal et al., "Accurate, Large Minibatch SGD" (2017): a batch k times larger takes a rate k times larger, reached
linearly over the first five epochs.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dtj_trainer.compat import keras as compat
from dtj_trainer.compat.types import Optimizer, Tensor
from dtj_trainer.errors import PreflightFailed


def check_scaling(rule: str) -> str:
    """Return `rule`; raises for an unknown one."""
    if rule not in {"auto", "linear", "none"}:
        raise PreflightFailed(f"learning_rate_scaling {rule!r} is unknown; use 'auto', 'linear' or 'none'")
    return rule


def factor(rule: str, replicas: int, *, per_replica: bool, total: int | None, base: int | None) -> float:
    """Return the factor of the base learning rate.

    Raises:
        PreflightFailed: "linear" with nothing to scale by.
    """
    if rule == "none":
        return 1.0
    if per_replica:
        return float(replicas)
    if rule == "auto":
        return 1.0
    if base is None:
        raise PreflightFailed(
            "learning_rate_scaling='linear' with a fixed global batch needs base_batch_size=, the batch that the "
            "learning rate was chosen for"
        )
    if total is None:
        raise PreflightFailed(
            "learning_rate_scaling='linear' has to know the size of the batches; give it as batch_size="
        )
    return total / base


def scale(optimizer: Optimizer, by: float, *, warm_up_steps: int) -> None:
    """Warm the optimizer up from its own rate to `by` times that, from the first step on."""
    if by == 1.0:
        return
    import keras
    import tensorflow as tf

    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # float16: what scales the loss has no rate of its own
    given = compat.learning_rate_object(optimizer)
    held = getattr(given, "unscaled", given)

    def times(step: Tensor) -> Tensor:
        share = tf.minimum(1.0, (tf.cast(step, tf.float32) + 1.0) / float(warm_up_steps))
        return 1.0 + (by - 1.0) * share

    def own() -> Tensor:
        now = held() if callable(held) else held
        return tf.convert_to_tensor(getattr(now, "value", now))  # Keras' own conversion keeps a variable of replicas

    class Schedule(keras.optimizers.schedules.LearningRateSchedule):
        unscaled = held

        def __call__(self, step: Tensor) -> Tensor:
            return held(step) * times(step)

        def get_config(self) -> dict[str, Any]:
            return {"factor": by, "warm_up_steps": warm_up_steps}

    class Rate(float):
        """The learning rate: called by the optimizer, assigned by callbacks, saved as a number."""

        unscaled = held

        def __call__(self) -> Tensor:
            return own() * times(optimizer.iterations)

        def assign(self, value: Tensor) -> None:
            held.assign(value / times(optimizer.iterations))

    scheduled = isinstance(held, keras.optimizers.schedules.LearningRateSchedule)
    compat.set_learning_rate_object(optimizer, Schedule() if scheduled else Rate(own()))


def rate_of(optimizer: Optimizer | None) -> float | None:
    """Return the learning rate of the next update; None for what is no optimizer."""
    rate = getattr(optimizer, "learning_rate", None)
    if rate is None:
        return None
    return float(rate.numpy() if hasattr(rate, "numpy") else rate)


@contextmanager
def keep_learning_rate(optimizer: Optimizer | None) -> Iterator[None]:
    """Restore the current learning rate of `optimizer` afterwards, unless it is a schedule."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    rate = compat.learning_rate_object(optimizer)
    held: Any = getattr(rate, "unscaled", rate)
    before = held.numpy() if hasattr(held, "assign") else None
    yield
    if before is not None:
        held.assign(before)
