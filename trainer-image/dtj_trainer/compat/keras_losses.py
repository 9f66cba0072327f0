"""How Keras reduces losses on several replicas, changed while a step is traced: it has no public setting for that.

Seen in 3.12 and 3.15.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dtj_trainer.compat.types import Tensor


class _Sums(threading.local):
    """A thread-local factor of sums: TensorFlow traces each replica in its own thread."""

    factor: Tensor | None = None


_sums = _Sums()


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
def scalable_sums() -> Iterator[None]:
    """Make `sums_times` effective inside, in all threads: losses that are sums have no public hook.

    Seen in 3.12 and 3.15.
    """
    from keras.src.losses import loss as losses

    reduce_values = losses.reduce_values

    def reduced(values: Tensor, sample_weight: Tensor = None, reduction: str | None = "sum_over_batch_size") -> Tensor:
        found = reduce_values(values, sample_weight, reduction)
        if _sums.factor is None or not (reduction == "sum" or len(found.shape) > 0):
            return found
        import tensorflow as tf

        return found * tf.cast(_sums.factor, found.dtype)

    losses.reduce_values = reduced
    try:
        yield
    finally:
        losses.reduce_values = reduce_values


@contextmanager
def sums_times(factor: Tensor | None) -> Iterator[None]:
    """Multiply Keras losses that are not means (reduction "sum" or "none") by `factor` inside, in this thread."""
    _sums.factor = factor
    try:
        yield
    finally:
        _sums.factor = None
