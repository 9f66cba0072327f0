"""The adapter of generators and of PyTorch's DataLoaders, which can be read from their beginning only.

A tf.data.Dataset over a generator is read here too, where its end has to be seen before it is there.
"""

import itertools
import sys
import threading
from collections.abc import Iterator
from types import GeneratorType
from typing import Any

from dtj_trainer.compat.types import Structure
from dtj_trainer.data.adapters.batch_split import is_dataset, split_for_processes, split_for_replicas, without_autotune
from dtj_trainer.data.adapters.python_batches import SAMPLES, batch_size_of, digest, python_dataset, spec_of, to_batch
from dtj_trainer.data.position import DataPosition
from dtj_trainer.data.sharding import BatchSize, Sharding
from dtj_trainer.errors import PreflightFailed

KEPT = 16
"""Batches that are kept at the beginning: a standby reads a few before it knows where to continue."""


class GeneratorAdapter:
    """A generator or DataLoader of global batches: every process reads all of it and takes its part of each batch."""

    reads_in_python = True
    batches_are_global = True
    passes_end = True
    batch_size = BatchSize(None, None)

    def __init__(self, data: Any, sharding: Sharding, *, most_batches: int | None = None) -> None:
        self._sharding = sharding
        self._most_batches = most_batches
        self._name = "tf.data.Dataset" if is_dataset(data) else type(data).__name__
        self.reads_once = isinstance(data, GeneratorType)
        samples = list(itertools.islice(iter(data), SAMPLES))
        if not samples:
            raise PreflightFailed(f"x, a {self._name}, gives no batch; check what it reads")
        self._data: Any = itertools.chain(samples, data) if self.reads_once else data
        self._samples = [to_batch(sample) for sample in samples]
        self.open_epochs = 1 if self.reads_once else sys.maxsize
        self._replay = _Replay(self._passes(), self._name)

    @property
    def batches_per_pass(self) -> int | None:
        """Return the number of batches of a DataLoader that knows it."""
        if self.reads_once or not hasattr(getattr(self._data, "dataset", None), "__len__"):
            return None
        return len(self._data)

    @property
    def element_spec(self) -> Any:
        """Return the structure of one global batch."""
        return spec_of(self._samples)

    @property
    def first_batch_size(self) -> int:
        """Return the number of examples of the first batch."""
        return batch_size_of(self._samples[0])

    @property
    def fingerprint(self) -> str:
        """Return a digest of the first batches."""
        return f"first batches with the SHA-256 {digest(self._samples)}"

    @property
    def difference(self) -> str:
        """Return what to do where processes have other batches than the chief."""
        return (
            f"x, a {self._name}, gives other batches in this process than in the chief, and every process has to get "
            "the same; seed what shuffles or draws them, for example numpy.random.default_rng(1), or "
            "torch.Generator().manual_seed(1) for a DataLoader"
        )

    def batches_before(self, position: DataPosition) -> int:
        """Return the number of batches that were read."""
        return position.batches

    def unread(self, position: DataPosition) -> int:
        """Return how many batches at the beginning of `dataset(position)` were trained already."""
        return position.batches

    def dataset(self, position: DataPosition) -> Any:
        """Return all batches for the replicas of this process, or Shares of them."""
        import tensorflow as tf

        del position
        batches = python_dataset(self._replay.read, self.element_spec)
        return split_for_replicas(batches, self._sharding, None).prefetch(tf.data.AUTOTUNE)

    def ahead(self, number: int, batches: int) -> tuple[int, bool]:
        """Return how many batches there are for certain from batch `number` on, and whether there are no more.

        Waits until more than `batches` batches are there, or the data has ended.
        """
        return self._replay.ahead(number, batches)

    def server_dataset(self, workers: int, index: int, position: DataPosition) -> Any:
        """Raise: it is read in this process."""
        raise NotImplementedError

    def evaluation_dataset(self) -> Any:
        """Return the share of this process of each batch; those of a generator are kept for the next evaluation."""
        batches = python_dataset(lambda: map(to_batch, self._data), self.element_spec).take(self._most_batches or -1)
        own = split_for_processes(batches, self._sharding)
        return without_autotune(own.cache() if self.reads_once else own)

    def _passes(self) -> Iterator[Iterator[Structure]]:
        """Yield the passes over the data, one over a generator, each as the batches in it."""
        yield map(to_batch, self._data)
        while not self.reads_once:
            yield map(to_batch, self._data)


class _Replay:
    """Batches that can be read once, and again from their beginning until more than KEPT were read.

    A new reading ends the one before.
    """

    def __init__(self, passes: Iterator[Iterator[Structure]], name: str) -> None:
        self._passes = passes
        self._batches: Iterator[Structure] | None = next(passes)
        self._name = name
        self._lock = threading.Lock()
        self._reading = 0
        self._drawn = 0
        self._held: dict[int, Structure] = {}
        """By their numbers: the first ones, and those that are drawn and not read yet."""
        self._began = 0
        """The batches drawn before this pass."""
        self._size: int | None = None
        """The batches of the first pass, once it has ended."""

    def read(self) -> Iterator[Structure]:
        """Yield the batches from the first one on.

        Raises:
            PreflightFailed: too many were read before.
        """
        with self._lock:
            self._reading += 1
            reading = self._reading
            if self._drawn and 0 not in self._held:
                raise PreflightFailed(
                    f"x, a {self._name}, was read already and cannot be read again; make a new one for each training"
                )
        for number in itertools.count():
            with self._lock:
                batch = self._batch(number) if reading == self._reading else None
            if batch is None:
                return
            yield batch

    def ahead(self, number: int, batches: int) -> tuple[int, bool]:
        """Return how many batches there are from `number` on, and whether the first pass has no more.

        Draws until it knows.
        """
        with self._lock:
            while self._drawn <= number + batches and self._size is None:
                self._draw()
            return (self._drawn - number - 1, False) if self._size is None else (self._size - number, True)

    def _batch(self, number: int) -> Structure | None:
        """Return a batch; None after the last."""
        while self._drawn <= number and self._batches is not None:
            self._draw()
        batch = self._held.get(number)
        if number >= KEPT:
            self._held = {each: held for each, held in self._held.items() if each > number}
        return batch

    def _draw(self) -> None:
        """Hold the next batch, or go on to the next pass; an empty one is the last."""
        assert self._batches is not None
        batch = next(self._batches, None)
        if batch is not None:
            self._held[self._drawn] = batch
            self._drawn += 1
            return
        self._size = self._drawn if self._size is None else self._size
        began, self._batches = self._began, next(self._passes, None)
        self._began = self._drawn
        if began == self._drawn:
            self._batches = None
