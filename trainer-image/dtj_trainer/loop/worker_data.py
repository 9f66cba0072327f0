"""The data of ParameterServer's workers: each reads its own part, at its own speed, and starts over after a loss."""

import warnings
from typing import Any

from dtj_trainer.data import feed
from dtj_trainer.data.deal import Dealt
from dtj_trainer.data.pipeline import Pipeline
from dtj_trainer.data.share import Share
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.loop.closures import coordinator
from dtj_trainer.running import Session


def per_worker_iterator(data: Any, session: Session, sizes: feed.Batches, seed: int, consumed: int) -> Any:
    """An endless iterator for closures, on each worker over that worker's part.

    A Pipeline is dealt out, each batch of `sizes.total` to one worker; `consumed` examples, counted over all workers,
    are behind. A function gets the InputContext of its worker.
    """
    import tensorflow as tf

    workers = session.environment.members("worker")
    behind = (Dealt(workers, consumed - consumed % workers),)
    made = coordinator(session)
    if feed.is_dataset(data):
        warnings.warn(
            "under ParameterServer every worker reads the whole of a plain tf.data.Dataset; "
            "give dtj.data.Pipeline or fn(ctx) to deal it out",
            stacklevel=2,
        )
        return iter(made.create_per_worker_dataset(data.repeat().prefetch(tf.data.AUTOTUNE)))

    def part(index: int) -> Any:
        if isinstance(data, Pipeline):
            assert sizes.total is not None
            return data.training(Share(workers, index, sizes.total, sizes.total * workers), seed, behind)
        dataset = data(tf.distribute.InputContext(workers, index, 1))
        if not feed.is_dataset(dataset):
            raise PreflightFailed(f"data(ctx) returned {type(dataset).__name__}; it has to return a tf.data.Dataset")
        return dataset.repeat()

    def own() -> Any:
        """Traced once for all workers; each reads from the part of its own number alone."""
        number = tf.distribute.coordinator.experimental_get_current_worker_index()
        parts = [part(index) for index in range(workers)]
        if workers == 1:
            return parts[0]
        return tf.data.Dataset.choose_from_datasets(parts, tf.data.Dataset.from_tensors(number).repeat())

    return iter(made.create_per_worker_dataset(own))
