"""The place in the data from which a training goes on."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadSpan:
    """`examples` were read, over all processes, while `workers` processes shared the data."""

    workers: int
    examples: int


@dataclass(frozen=True, slots=True)
class DataPosition:
    """What all processes together have read since the training began."""

    examples: int = 0
    batches: int = 0
    """Global batches."""
    read: tuple[ReadSpan, ...] = ()
    """The examples again, by how many processes shared the data: the place in files depends on it."""

    def after(self, batches: int, examples: int, workers: int) -> "DataPosition":
        """The position after so many more batches and examples, read by `workers` processes."""
        return DataPosition(self.examples + examples, self.batches + batches, read_on(self.read, workers, examples))


def read_on(history: Sequence[ReadSpan], workers: int, examples: int) -> tuple[ReadSpan, ...]:
    """`history`, with `examples` more read by `workers` processes."""
    if history and history[-1].workers == workers:
        return (*history[:-1], ReadSpan(workers, history[-1].examples + examples))
    return (*history, ReadSpan(workers, examples))
