"""How Keras reduces losses on several replicas, changed while a step is traced: it has no public setting for that.

Seen in 3.12 and 3.15.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dtj_trainer.compat.types import Tensor


class _Replica(threading.local):
    """The state while a step of one replica is traced; TensorFlow traces each replica in its own thread."""

    depth: int = 0
    """How many Loss objects are being called: one may call another, and what it makes of that is its own affair."""
    sums: Tensor | None = None
    """The factor of losses that are sums."""
    examples: Tensor | None = None
    """How many examples of the batch it has."""
    add: Callable[[list[Tensor]], list[Tensor]] | None = None
    """Adds up over replicas what a mean is over that is none over examples."""
    adds_up: bool = False
    """Whether a loss with a number for each example is differentiated as it is."""


_replica = _Replica()


@contextmanager
def unscaled_losses() -> Iterator[None]:
    """Stop Keras from dividing losses by the replicas inside: a loss means what it means in one process.

    Seen in 3.12 and 3.15.
    """
    from keras.src.losses import loss as losses

    scale, unscale = losses.scale_loss_for_distribution, losses.unscale_loss_for_distribution
    losses.scale_loss_for_distribution = losses.unscale_loss_for_distribution = lambda value: value
    try:
        yield
    finally:
        losses.scale_loss_for_distribution, losses.unscale_loss_for_distribution = scale, unscale


@contextmanager
def scalable_losses() -> Iterator[None]:
    """Make `scaled` effective inside, in all threads: losses that are sums, or means of their own, have no public hook.

    Seen in 3.12 and 3.15.
    """
    import keras
    from keras.src.losses import loss as losses
    from keras.src.trainers.compile_utils import CompileLoss

    reduce_values, apply_mask = losses.reduce_values, losses.apply_mask
    call, call_of_all = keras.losses.Loss.__call__, CompileLoss.__call__

    def reduced(values: Tensor, sample_weight: Tensor = None, reduction: str | None = "sum_over_batch_size") -> Tensor:
        import tensorflow as tf

        found = reduce_values(values, sample_weight, reduction)
        if reduction == "mean_with_sample_weight" and sample_weight is not None:
            return _times(found, _part(tf.reduce_sum(sample_weight)))
        return _times(found, _replica.sums) if reduction == "sum" and _replica.depth == 1 else found

    def masked(sample_weight: Tensor, mask: Tensor, dtype: str, reduction: str | None) -> Tensor:
        import tensorflow as tf

        found = apply_mask(sample_weight, mask, dtype, reduction)
        if mask is None or reduction not in {"mean", "sum_over_batch_size"}:
            return found
        return _times(found, _part(tf.reduce_sum(tf.cast(mask, tf.float32))))

    def counted(loss: Any, *arguments: Any, **named: Any) -> Tensor:
        _replica.depth += 1
        try:
            return call(loss, *arguments, **named)
        finally:
            _replica.depth -= 1

    def of_all_outputs(loss: Any, *arguments: Any, **named: Any) -> Tensor:
        found = call_of_all(loss, *arguments, **named)
        return _times(found, _replica.sums) if _replica.adds_up and len(found.shape) > 0 else found

    losses.reduce_values, losses.apply_mask = reduced, masked
    keras.losses.Loss.__call__, CompileLoss.__call__ = counted, of_all_outputs
    try:
        yield
    finally:
        losses.reduce_values, losses.apply_mask = reduce_values, apply_mask
        keras.losses.Loss.__call__, CompileLoss.__call__ = call, call_of_all


@contextmanager
def scaled(
    *,
    sums: Tensor | None,
    examples: Tensor,
    add: Callable[[list[Tensor]], list[Tensor]] | None,
    adds_up: bool = False,
) -> Iterator[None]:
    """Multiply Keras losses that are no means over examples inside, in this thread.

    A Loss of reduction "sum" by `sums`; with `adds_up` what `compile` made of all losses too, where that has a number
    for each example. What a Loss or the model computes from another Loss is as it is. Means over unmasked entries or
    over weights become this replica's part of the mean over all replicas, where `add` adds up numbers over these; this
    one has `examples`.
    """
    _replica.sums, _replica.examples, _replica.add, _replica.adds_up = sums, examples, add, adds_up
    try:
        yield
    finally:
        _replica.sums = _replica.examples = _replica.add = None
        _replica.adds_up = False


def _part(own: Tensor) -> Tensor | None:
    """Return the factor of a mean over `own` entries or weights: its part of all, to its part of all examples."""
    import tensorflow as tf

    if _replica.add is None:
        return None
    counts = [tf.cast(own, tf.float32), tf.cast(_replica.examples, tf.float32)]
    total, all_examples = _replica.add(counts)
    return tf.math.divide_no_nan(counts[0], total) * tf.math.divide_no_nan(all_examples, counts[1])


def _times(value: Tensor, factor: Tensor | None) -> Tensor:
    import tensorflow as tf

    return value if factor is None else value * tf.cast(factor, value.dtype)
