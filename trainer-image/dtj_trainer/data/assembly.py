"""Batches put together in NumPy, column by column.

Where a batch lies in one piece of a block, it is that piece, and TensorFlow takes it without copying it: nothing is
done to a column between the file's decoder and the training step.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

Chunk: TypeAlias = Mapping[str, Any]
"""Arrays [examples, ...] by column."""
EXAMPLES, BYTES = 65_536, 16 << 20
"""Of batches smaller than this, as many are handed over together as make up so many examples or bytes: a column costs
as much to hand over as thousands of its values."""


def at_once(batch: int, row: int) -> int:
    """Batches that are handed over together, of examples of about `row` bytes."""
    return max(1, min(EXAMPLES, BYTES // max(1, row)) // batch)


def assembled(chunks: Iterable[Chunk], batch: int, together: int, *, drop_remainder: bool) -> Iterator[list[Any]]:
    """Again and again an array [together, batch, ...] for each column; at the end of fewer, and of a smaller one.

    A single batch has no first axis: [batch, ...].
    """
    for spans in _cut(chunks, together * batch):
        if _examples(spans) == together * batch:
            yield _stacked(spans, batch, together)
            continue
        for last in _cut(spans, batch):
            if _examples(last) == batch or not drop_remainder:
                yield _stacked(last, _examples(last), together)


def _stacked(spans: Sequence[Chunk], batch: int, together: int) -> list[Any]:
    """The columns of `spans`, as batches of `batch`."""
    columns = (
        spans[0][name] if len(spans) == 1 else np.concatenate([span[name] for span in spans]) for name in spans[0]
    )
    return [column if together == 1 else column.reshape(-1, batch, *column.shape[1:]) for column in columns]


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


def _examples(spans: Sequence[Chunk]) -> int:
    return sum(len(next(iter(span.values()))) for span in spans)


def _span(chunk: Chunk, start: int, stop: int) -> Chunk:
    return {name: column[start:stop] for name, column in chunk.items()}
