"""Batches put together in NumPy, column by column.

Batches that lie in one piece of a chunk are that piece, and TensorFlow takes it without copying it: nothing is done
to a column between the file's decoder and the training step.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

Chunk: TypeAlias = Mapping[str, Any]
"""Arrays [examples, ...] by column."""


def assembled(chunks: Iterable[Chunk], batch: int, *, drop_remainder: bool) -> Generator[list[Any], None, None]:
    """Again and again an array [batches, batch, ...] for each column: as many batches as lie together; at the end a
    smaller one.
    """
    held: list[Chunk] = []
    for chunk in chunks:
        start, total = 0, _examples([chunk])
        if held:
            start = min(total, batch - _examples(held))
            held.append(_span(chunk, 0, start))
            if _examples(held) < batch:
                continue
            yield _stacked(held, batch)
            held = []
        whole = start + (total - start) // batch * batch
        if whole > start:
            yield _stacked([_span(chunk, start, whole)], batch)
        if whole < total:
            held = [_span(chunk, whole, total)]
    if held and not drop_remainder:
        yield _stacked(held, _examples(held))


def _stacked(spans: Sequence[Chunk], batch: int) -> list[Any]:
    """The columns of `spans`, as batches of `batch`."""
    columns = (
        spans[0][name] if len(spans) == 1 else np.concatenate([span[name] for span in spans]) for name in spans[0]
    )
    return [column.reshape(-1, batch, *column.shape[1:]) for column in columns]


def _examples(spans: Sequence[Chunk]) -> int:
    return sum(len(next(iter(span.values()))) for span in spans)


def _span(chunk: Chunk, start: int, stop: int) -> Chunk:
    return {name: column[start:stop] for name, column in chunk.items()}
