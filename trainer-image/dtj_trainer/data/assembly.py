"""Batches put together in NumPy: what TensorFlow is handed costs it by the piece, so it gets few and large ones.

Columns of one type share an array [batches, columns, examples, ...]. A batch of it, and a column of a batch, are whole
pieces of memory, which TensorFlow takes apart without copying them.
"""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Chunk: TypeAlias = Mapping[str, Any]
"""Arrays [examples, ...] by column."""
EXAMPLES, BYTES = 4096, 16 << 20
"""Of batches smaller than this, as many are handed over together as make up so many examples or bytes."""
ALIGNED = 64
"""Bytes: where an array begins at a multiple of this, TensorFlow takes it as it is (EIGEN_MAX_ALIGN_BYTES)."""
NOBODY = 2
"""References that sys.getrefcount counts to what only a list has: the list's and its own."""


@dataclass(frozen=True, slots=True)
class Group:
    """Columns of one type and shape of value; `dtype` is TensorFlow's."""

    names: tuple[str, ...]
    dtype: Any
    shape: tuple[int, ...]


def groups(signature: Mapping[str, Any]) -> list[Group]:
    """The columns of a signature (tf.TensorSpec [None, ...] by name) by their type."""
    found: dict[Any, list[str]] = {}
    for name, spec in signature.items():
        found.setdefault((spec.dtype, tuple(spec.shape[1:])), []).append(name)
    return [Group(tuple(names), dtype, shape) for (dtype, shape), names in found.items()]


def at_once(batch: int, row: int) -> int:
    """Batches that are handed over together, of examples of about `row` bytes."""
    return max(1, min(EXAMPLES, BYTES // max(1, row)) // batch)


def assembled(
    chunks: Iterable[Chunk], wanted: Sequence[Group], batch: int, together: int, *, drop_remainder: bool
) -> Iterator[list[Any]]:
    """Again and again for each group an array of `together` batches; at the end of fewer, and of a smaller one."""
    memory = _Memory()
    for spans in _cut(chunks, together * batch):
        if _examples(spans) == together * batch:
            yield [_stacked(spans, group, together, memory) for group in wanted]
            continue
        for last in _cut(spans, batch):
            if _examples(last) == batch or not drop_remainder:
                yield [_stacked(last, group, 1, memory) for group in wanted]


def _cut(chunks: Iterable[Chunk], examples: int) -> Iterator[list[Chunk]]:
    """Pieces of chunks that make up `examples` each; the last ones may be fewer."""
    held: list[Chunk] = []
    missing = examples
    for chunk in chunks:
        start, total = 0, _examples([chunk])
        while total - start >= missing:
            yield [*held, _span(chunk, start, start + missing)]
            start += missing
            held, missing = [], examples
        if start < total:
            held.append(_span(chunk, start, total))
            missing -= total - start
    if held:
        yield held


def _stacked(spans: Sequence[Chunk], group: Group, batches: int, memory: "_Memory") -> Any:
    size = _examples(spans) // batches
    stacked = memory.array((batches, len(group.names), size, *group.shape), np.dtype(group.dtype.as_numpy_dtype))
    for number, name in enumerate(group.names):
        pieces = [span[name] for span in spans]
        column = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        stacked[:, number] = column.reshape(batches, size, *group.shape)
    return stacked


class _Memory:
    """Memory that is used again when nobody has it any more: fresh pages cost more than what is written into them."""

    def __init__(self) -> None:
        self._pieces: list[Any] = []

    def array(self, shape: tuple[int, ...], kind: Any) -> Any:
        """Not initialized; free again when the array and all tensors on it are gone."""
        if kind.hasobject:
            return np.empty(shape, kind)
        size = math.prod(shape) * kind.itemsize
        memory = self._free(size)
        start = -memory.ctypes.data % ALIGNED
        return memory[start : start + size].view(kind).reshape(shape)

    def _free(self, size: int) -> Any:
        for number in range(len(self._pieces)):
            if sys.getrefcount(self._pieces[number]) == NOBODY and len(self._pieces[number]) >= size + ALIGNED:
                return self._pieces[number]
        self._pieces.append(np.empty(size + ALIGNED, np.uint8))
        return self._pieces[-1]


def _examples(spans: Sequence[Chunk]) -> int:
    return sum(len(next(iter(span.values()))) for span in spans)


def _span(chunk: Chunk, start: int, stop: int) -> Chunk:
    return {name: column[start:stop] for name, column in chunk.items()}
