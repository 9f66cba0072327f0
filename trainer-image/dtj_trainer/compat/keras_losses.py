"""How Keras reduces losses on several replicas, changed while a step is traced: it has no public setting for that.

Seen in 3.12 and 3.15.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dtj_trainer.compat.types import Tensor


class _Replica(threading.local):
    """The state while a step of one replica is traced; TensorFlow traces each replica in its own thread."""

    sums: Tensor | None = None
    """The factor of losses that are sums."""
    examples: Tensor | None = None
    """How many examples of the batch it has."""
    add: Callable[[list[Tensor]], list[Tensor]] | None = None
    """Adds up over replicas what a mean is over that is none over examples."""


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
    from keras.src.losses import loss as losses

    reduce_values, apply_mask = losses.reduce_values, losses.apply_mask

    def reduced(values: Tensor, sample_weight: Tensor = None, reduction: str | None = "sum_over_batch_size") -> Tensor:
        import tensorflow as tf

        found = reduce_values(values, sample_weight, reduction)
        if reduction == "mean_with_sample_weight" and sample_weight is not None:
            return _times(found, _part(tf.reduce_sum(sample_weight)))
        return _times(found, _replica.sums) if reduction == "sum" or len(found.shape) > 0 else found

    def masked(sample_weight: Tensor, mask: Tensor, dtype: str, reduction: str | None) -> Tensor:
        import tensorflow as tf

        found = apply_mask(sample_weight, mask, dtype, reduction)
        if mask is None or reduction not in {"mean", "sum_over_batch_size"}:
            return found
        return _times(found, _part(tf.reduce_sum(tf.cast(mask, tf.float32))))

    losses.reduce_values, losses.apply_mask = reduced, masked
    try:
        yield
    finally:
        losses.reduce_values, losses.apply_mask = reduce_values, apply_mask


@contextmanager
def scaled(
    *, sums: Tensor | None, examples: Tensor, add: Callable[[list[Tensor]], list[Tensor]] | None
) -> Iterator[None]:
    """Multiply Keras losses that are no means over examples inside, in this thread.

    Those of reduction "sum" and "none" by `sums`. Means over unmasked entries or over weights become this replica's
    part of the mean over all replicas, where `add` adds up numbers over these; this one has `examples`.
    """
    _replica.sums, _replica.examples, _replica.add = sums, examples, add
    try:
        yield
    finally:
        _replica.sums = _replica.examples = _replica.add = None


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
