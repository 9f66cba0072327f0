"""What a source of files looks like to the Pipeline: a table of blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dtj_trainer.data.sources.files import File


@dataclass(frozen=True, slots=True)
class Block:
    """Examples that are read together: a row group, or some megabytes of a file."""

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
        """Examples."""

    @property
    def takes_batches(self) -> bool:
        """Whether `example` may be given many examples at once, with a first axis."""

    def read(self, block: Block) -> Mapping[str, Any]:
        """Arrays [rows, ...] by column; called in several threads."""

    def signature(self) -> Mapping[str, Any]:
        """A tf.TensorSpec [None, ...] by column."""

    def example(self, columns: Any) -> Any:
        """What one example looks like to the user, from a dict of its columns' tensors."""
