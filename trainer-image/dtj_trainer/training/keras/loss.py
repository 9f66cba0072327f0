"""Losses as on one replica.

Keras gives a loss its share, 1 / replicas, where it reduces it itself, and lets through what is one number already: the
result of a loss function, or of a model's own `compute_loss`. With N replicas such a loss would train with N times the
gradient. So each replica computes its loss as if it were alone, and the caller takes the share of the whole, once.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


class _Here(threading.local):
    """TensorFlow traces each replica in a thread of its own."""

    replicas: int | None = None
    """In a loss that is computed as on one replica: how many there are."""


_here = _Here()


@contextmanager
def alone(strategy: Any) -> Iterator[None]:
    """Inside, this thread sees one replica, and losses that are sums count as much as means of all replicas do."""
    replicas = strategy.num_replicas_in_sync
    if replicas == 1:
        yield
        return
    kind: Any = type(strategy)
    _install(kind)
    _here.replicas = replicas
    try:
        yield
    finally:
        _here.replicas = None


@cache
def _install(kind: Any) -> None:
    counted = kind.num_replicas_in_sync
    kind.num_replicas_in_sync = property(lambda self: 1 if _here.replicas else counted.fget(self))
    _let_sums_be_sums()


@cache
def _let_sums_be_sums() -> None:
    """A sum over the examples of all replicas is the sum of theirs, and its share is taken like that of a mean."""
    from keras.src.losses import loss as losses

    reduce_values = losses.reduce_values

    def reduced(values: Any, sample_weight: Any = None, reduction: str | None = "sum_over_batch_size") -> Any:
        found = reduce_values(values, sample_weight, reduction)
        is_sum = reduction == "sum" or len(found.shape) > 0
        return found * _here.replicas if _here.replicas and is_sum else found

    losses.reduce_values = reduced
