"""The interface between a source of files and the Pipeline: a table of blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dtj_trainer.data.sources.files import File


@dataclass(frozen=True, slots=True)
class Block:
    """A block of examples that are read together: a row group, or some megabytes of a file."""

    file: File
    rows: int
    size: int
    """Bytes, about, when read; files hold what repeats in far less."""
    start: int
    """Where it is: the number of the row group, or the first byte."""
    length: int = 0
    """Bytes in the file, where `start` is a byte."""


class Table(Protocol):
    """A source made of blocks whose sizes are known."""

    @property
    def blocks(self) -> Sequence[Block]: ...

    @property
    def size(self) -> int:
        """The number of examples."""

    @property
    def takes_batches(self) -> bool:
        """Whether `example` accepts a batch of examples."""

    def read(self, block: Block) -> Mapping[str, Any]:
        """Return arrays [rows, ...] by column; called from several threads."""

    def signature(self) -> Mapping[str, Any]:
        """Return a tf.TensorSpec [None, ...] by column."""

    def example(self, columns: Any) -> Any:
        """Return an example as the user sees it, from a dict of its columns' tensors."""
