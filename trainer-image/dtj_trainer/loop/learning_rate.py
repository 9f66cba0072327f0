"""Linear scaling of the learning rate when the global batch grows, with a warm-up.

Goyal et al., "Accurate, Large Minibatch SGD" (2017): a batch k times larger takes a rate k times larger, reached
linearly over the first five epochs.
"""

from typing import Any

from dtj_trainer.errors import PreflightFailed


def factor(rule: str, replicas: int, *, per_replica: bool, total: int | None, base: int | None) -> float:
    """By what the base rate is multiplied.

    Raises:
        PreflightFailed: an unknown rule, or "linear" with nothing to scale by.
    """
    if rule not in {"auto", "linear", "none"}:
        raise PreflightFailed(f"learning_rate_scaling {rule!r} is unknown; use 'auto', 'linear' or 'none'")
    if rule == "none":
        return 1.0
    if per_replica:
        return float(replicas)
    if rule == "auto":
        return 1.0
    if base is None or total is None:
        raise PreflightFailed(
            "learning_rate_scaling='linear' with a fixed global batch needs base_batch_size=, the batch that the "
            "learning rate was chosen for"
        )
    return total / base


def scale(optimizer: Any, by: float, *, warm_up_steps: int) -> None:
    """Let `optimizer` warm up from its own rate to `by` times that; the first step takes its share already."""
    if by == 1.0:
        return
    import keras
    import tensorflow as tf

    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # float16: what scales the loss has no rate of its own
    before = optimizer._learning_rate if _has_schedule(optimizer) else None  # noqa: SLF001 - the property calls it
    rate = None if before is not None else float(optimizer.learning_rate.numpy())

    class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step: Any) -> Any:
            base = before(step) if before is not None else tf.constant(rate, tf.float32)
            share = tf.minimum(1.0, (tf.cast(step, tf.float32) + 1.0) / float(warm_up_steps))
            return base * (1.0 + (by - 1.0) * share)

        def get_config(self) -> dict[str, Any]:
            return {"factor": by, "warm_up_steps": warm_up_steps}

    # Not by the property: that takes the rate's variable out of the optimizer's list, which then cannot be saved, and
    # would not fit the checkpoint of another number of replicas.
    optimizer._learning_rate = WarmUp()  # noqa: SLF001


def rate_of(optimizer: Any) -> float | None:
    """The learning rate of the next update; None for what is no optimizer."""
    rate = getattr(optimizer, "learning_rate", None)
    if rate is None:
        return None
    return float(rate.numpy() if hasattr(rate, "numpy") else rate)


def _has_schedule(optimizer: Any) -> bool:
    import keras

    held = getattr(optimizer, "_learning_rate", None)
    return isinstance(held, keras.optimizers.schedules.LearningRateSchedule)
