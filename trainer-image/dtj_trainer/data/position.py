"""The position in the data from which a training resumes."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadSpan:
    """A span of the training: `workers` processes together read `examples` examples."""

    workers: int
    examples: int


@dataclass(frozen=True, slots=True)
class DataPosition:
    """The examples and batches that all processes together have read since the training began."""

    examples: int = 0
    batches: int = 0
    """Global batches."""
    read: tuple[ReadSpan, ...] = ()
    """The examples by number of processes that shared the data: the position in files depends on it."""

    def after(self, batches: int, examples: int, workers: int) -> "DataPosition":
        """Return the position after `workers` processes have read more batches and examples."""
        return DataPosition(self.examples + examples, self.batches + batches, read_on(self.read, workers, examples))


def read_on(history: Sequence[ReadSpan], workers: int, examples: int) -> tuple[ReadSpan, ...]:
    """Return `history` extended by `examples` that `workers` processes have read."""
    if history and history[-1].workers == workers:
        return (*history[:-1], ReadSpan(workers, history[-1].examples + examples))
    return (*history, ReadSpan(workers, examples))
