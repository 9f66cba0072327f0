"""The data of ParameterServer's closures.

Arrays and user functions are read by each worker, at its own speed. Workers are servers without Python, so data that
needs Python (Parquet, CSV, a Dataset of this process) is read here, in the chief, and each batch is sent with its
closure: each example goes to one worker, and a resume continues at the exact example.
"""

import time
from collections.abc import Iterator

from dtj_trainer.compat.types import Coordinator, Dataset, Structure
from dtj_trainer.context import TrainContext
from dtj_trainer.data.adapters.adapter import DataAdapter
from dtj_trainer.data.position import DataPosition
from dtj_trainer.training.steps.read_past import read_past
from dtj_trainer.training.steps.step_iterator import explain_data_end, iterate

WAVE_BATCHES = 8
"""Batches a worker that wait in this process at a time."""


class WorkerData:
    """The data that each worker reads itself; its iterator starts over when the worker was lost."""

    wave: int | None = None
    """Closures to schedule at a time; None: all of a call."""

    def __init__(self, iterator: Iterator[Structure]) -> None:
        self._iterator = iterator

    def argument(self, _batches: int) -> tuple[Structure, float]:
        """Return the argument of a closure, and the seconds spent waiting for it."""
        return self._iterator, 0.0

    def read(self, iterator: Iterator[Structure], batches: int) -> Structure:
        """Return the batches of a closure; traced."""
        return tuple(next(iterator) for _ in range(batches))


class ChiefData:
    """The data that the chief reads; each closure gets its batches as argument."""

    def __init__(self, iterator: Iterator[Structure], workers: int) -> None:
        self._iterator = iterator
        self.wave: int | None = WAVE_BATCHES * workers

    def argument(self, batches: int) -> tuple[Structure, float]:
        started = time.monotonic()
        found = [next(self._iterator) for _ in range(batches)]  # no generator: it may raise StopIteration
        return tuple(found), time.monotonic() - started

    def read(self, batches: Structure, _count: int) -> Structure:
        return batches


def closure_data(
    data: DataAdapter, context: TrainContext, position: DataPosition, coordinator: Coordinator
) -> WorkerData | ChiefData:
    """Return batches for closures, from `position` on. Every batch has the global batch's size."""
    import tensorflow as tf

    workers = context.environment.members("worker")
    if data.reads_in_python:
        with tf.device("/job:chief/task:0/device:CPU:0"):
            dataset = data.dataset(position)
            iterator = iterate(dataset, context.strategy, context.local_replicas)
            with explain_data_end():
                read_past(lambda batches: _drop(iterator, batches), data.unread(position), context)
        return ChiefData(iterator, workers)

    def own() -> Dataset:
        """Return the dataset of a worker, traced once for all: each reads only its own part."""
        number = tf.distribute.coordinator.experimental_get_current_worker_index()
        parts = [data.server_dataset(workers, index, position) for index in range(workers)]
        if workers == 1:
            return parts[0]
        return tf.data.Dataset.choose_from_datasets(parts, tf.data.Dataset.from_tensors(number).repeat())

    return WorkerData(iter(coordinator.create_per_worker_dataset(own)))


def _drop(iterator: Iterator[Structure], batches: int) -> None:
    """Read so many batches."""
    for _ in range(batches):
        next(iterator)
