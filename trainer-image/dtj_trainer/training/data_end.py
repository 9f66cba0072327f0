"""What a training says whose data ends before it does, whoever reads the data."""

from collections.abc import Iterator
from contextlib import contextmanager

from dtj_trainer.errors import PreflightFailed


@contextmanager
def data_end() -> Iterator[None]:
    """Around what reads batches.

    Raises:
        PreflightFailed: there are no more.
    """
    import tensorflow as tf

    try:
        yield
    except (StopIteration, tf.errors.OutOfRangeError) as error:
        raise PreflightFailed(
            "the data is empty or ended before the training did; repeat it, or give fewer epochs= or steps="
        ) from error
