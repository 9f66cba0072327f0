"""The adapter of keras.utils.PyDataset: batches by number, made by threads or processes of this process."""

import itertools
import multiprocessing
import multiprocessing.pool
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import cached_property
from typing import Any

from dtj_trainer.compat.types import Structure
from dtj_trainer.data.adapters.batch_split import split_for_processes, split_for_replicas, without_autotune
from dtj_trainer.data.adapters.python_batches import SAMPLES, batch_size_of, python_dataset, spec_of, to_batch
from dtj_trainer.data.position import DataPosition
from dtj_trainer.data.sharding import BatchSize, Sharding
from dtj_trainer.errors import PreflightFailed


class PyDatasetAdapter:
    """A PyDataset of global batches, which every process reads as a whole; a resume begins at its batch.

    With `shuffle` the order of a pass follows from the seed and the pass; a PyDataset without end keeps its order.
    `on_epoch_begin` and `on_epoch_end` are called around the batches of each epoch, and at a resume once for each epoch
    before it.
    """

    reads_in_python = True
    open_epochs = 0
    batches_are_global = True
    passes_end = True
    batch_size = BatchSize(None, None)

    def __init__(
        self,
        data: Any,
        sharding: Sharding,
        *,
        shuffle: bool = False,
        seed: int = 0,
        epoch_batches: int | None = None,
        most_batches: int | None = None,
        weighted: Callable[[Any], Any] = lambda dataset: dataset,
    ) -> None:
        self._data = data
        self._sharding = sharding
        self._shuffle = shuffle
        self._seed = seed
        self._epoch_batches = epoch_batches
        self._most_batches = most_batches
        self._weighted = weighted

    @cached_property
    def batches_per_pass(self) -> int | None:
        """Return the number of batches; None if there is no end of them.

        Raises:
            PreflightFailed: there is none.
        """
        found = self._data.num_batches
        if found == 0:
            raise PreflightFailed(f"x, a {type(self._data).__name__}, has no batches; check its length")
        return None if found is None else int(found)

    @property
    def element_spec(self) -> Any:
        """Return the structure of one global batch."""
        return self._global_batches(lambda: iter(())).element_spec

    @property
    def first_batch_size(self) -> int:
        """Return the number of examples of the first of the batches."""
        return batch_size_of(self._samples[0])

    @property
    def fingerprint(self) -> str:
        """Return the number of batches."""
        return f"{self.batches_per_pass} batches"

    def batches_before(self, position: DataPosition) -> int:
        """Return the number of batches that were read."""
        return position.batches

    def unread(self, position: DataPosition) -> int:
        """Return 0: `dataset(position)` begins there."""
        del position
        return 0

    def dataset(self, position: DataPosition) -> Any:
        """Return infinite batches for the replicas of this process, or Shares of them."""
        import tensorflow as tf

        batches = self._global_batches(lambda: self._training(position.batches))
        return split_for_replicas(batches, self._sharding, None).prefetch(tf.data.AUTOTUNE)

    def server_dataset(self, workers: int, index: int, position: DataPosition) -> Any:
        """Raise: a PyDataset is read in this process."""
        raise NotImplementedError

    def evaluation_dataset(self) -> Any:
        """Return the share of this process of each batch, in order, once."""
        most = self._most_batches if self.batches_per_pass is None else self.batches_per_pass
        batches = self._global_batches(lambda: self._epoch(range(most or 0))).take(self._most_batches or -1)
        return without_autotune(split_for_processes(batches, self._sharding))

    @cached_property
    def _samples(self) -> list[Structure]:
        samples = SAMPLES if self.batches_per_pass is None else min(SAMPLES, self.batches_per_pass)
        return [to_batch(self._data[number]) for number in range(samples)]

    def _global_batches(self, batches: Callable[[], Iterator[Structure]]) -> Any:
        return self._weighted(python_dataset(batches, spec_of(self._samples)))

    def _training(self, start: int) -> Generator[Structure, None, None]:
        """Yield batches from number `start` of the training on, without end."""
        for length, numbers in self._epochs():
            if length is not None and start >= length:
                self._data.on_epoch_begin()
                self._data.on_epoch_end()
                start -= length
            else:
                yield from self._epoch(itertools.islice(numbers, start, None))
                start = 0

    def _epochs(self) -> Iterator[tuple[int | None, Iterable[int]]]:
        """Yield the length of each epoch, and the numbers of its batches; one ends with its pass at the latest."""
        size, length = self.batches_per_pass, self._epoch_batches
        if size is None:
            starts = itertools.count(0, length or 1)
            endless = ((length, range(first, first + (length or 0))) for first in starts)
            yield from endless if length else iter([(None, itertools.count())])
            return
        for number in itertools.count():
            order = self._order(size, number)
            for first in range(0, size, length or size):
                epoch = order[first : first + (length or size)]
                yield len(epoch), epoch

    def _order(self, size: int, number: int) -> list[int]:
        """Return the order of the batches in a pass."""
        import numpy as np

        if not self._shuffle:
            return list(range(size))
        order: list[int] = np.random.default_rng([self._seed, number]).permutation(size).tolist()
        return order

    def _epoch(self, numbers: Iterable[int]) -> Iterator[Structure]:
        """Yield the batches of an epoch, between its two calls."""
        self._data.on_epoch_begin()
        yield from map(to_batch, self._read(numbers))
        self._data.on_epoch_end()

    def _read(self, numbers: Iterable[int]) -> Iterator[Any]:
        """Yield batches in order, made by as many threads or processes as the PyDataset asks for, as in Keras."""
        data = self._data
        if data.use_multiprocessing and data.workers > 0:
            with multiprocessing.Pool(data.workers, _begin_process, (data,)) as processes:
                yield from _in_order(processes, _batch_of_process, numbers, data.max_queue_size)
        elif data.workers > 1:
            with multiprocessing.pool.ThreadPool(data.workers) as threads:
                yield from _in_order(threads, data.__getitem__, numbers, data.max_queue_size)
        else:
            yield from map(data.__getitem__, numbers)


def _in_order(
    pool: multiprocessing.pool.Pool, batch: Callable[[int], Any], numbers: Iterable[int], most: int
) -> Iterator[Any]:
    """Yield the batches of these numbers; the pool makes at most `most` of them ahead."""
    waiting: deque[Any] = deque()
    for number in numbers:
        waiting.append(pool.apply_async(batch, (number,)))
        if len(waiting) > max(most, 1):
            yield waiting.popleft().get()
    while waiting:
        yield waiting.popleft().get()


_data_of_process: Any = None
"""The PyDataset, in a process of a pool."""


def _begin_process(data: Any) -> None:
    """Keep the PyDataset in a new process, which ends at SIGTERM: the training process, its parent, does not."""
    global _data_of_process  # noqa: PLW0603 - a pool gives its processes no other place
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _data_of_process = data


def _batch_of_process(number: int) -> Any:
    return _data_of_process[number]
