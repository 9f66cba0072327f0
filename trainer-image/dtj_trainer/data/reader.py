"""How a tf.data graph reads a table, in whatever process the graph runs.

`Dataset.from_generator` works only in the process that made it, and ParameterServer's workers run graphs that the chief
has made. So the two functions here go by names that every process of ours knows (`register`), and what they need to
know travels in the graph, pickled: TensorFlow's servers trust who speaks to them anyway.
"""

import itertools
import pickle
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dtj_trainer.data import deal, read_ahead
from dtj_trainer.data.share import Share
from dtj_trainer.data.table import Table

OPEN, NEXT = "dtj_trainer.data.open", "dtj_trainer.data.next"


@dataclass(frozen=True, slots=True)
class Reading:
    """All that decides what one process reads of a table, and in which order."""

    table: Table
    share: Share
    order: deal.Order
    history: tuple[deal.Dealt, ...]
    repeat: bool
    keep: bool
    """Hold on to the blocks that were read, and have the same ones in each pass."""
    once: bool = False
    """One pass in the order of the files, for validation."""

    def chunks(self) -> Iterator[Mapping[str, Any]]:
        rows = [block.rows for block in self.table.blocks]
        mixed = bool(self.order.window) and not self.once
        places = read_ahead.Places(rows, self.order.seed, mixed=mixed, same_each_pass=self.keep)
        return read_ahead.chunks(self.table, places, self._positions(), keep=self.keep)

    def _positions(self) -> Iterator[tuple[int, deal.Positions]]:
        if self.once:
            own = deal.even_part(self.table.size, self.share.count, self.share.index)
            return ((0, window) for window in deal.Order(self.table.size, 0, 0).windows((own,), 0))
        return deal.reading(self.order, self.history, self.share.count, self.share.index, repeat=self.repeat)


def dataset(reading: Reading) -> Any:
    """A tf.data.Dataset of many examples at once, with a first axis of varying length.

    They are what `table.example` makes of them if it takes many, else dicts of columns.
    """
    import tensorflow as tf

    register()
    signature = reading.table.signature()
    names = list(signature)

    def following(handle: Any) -> Any:
        columns = tf.raw_ops.PyFunc(input=[handle], token=NEXT, Tout=[signature[name].dtype for name in names])
        for name, column in zip(names, columns, strict=True):
            column.set_shape(signature[name].shape)
        chunk = dict(zip(names, columns, strict=True))
        return reading.table.example(chunk) if reading.table.takes_batches else chunk

    def some(*chunk: Any) -> Any:
        return tf.shape(tf.nest.flatten(chunk)[0])[0] > 0

    def opened(order: Any) -> Any:
        (handle,) = tf.raw_ops.PyFunc(input=[order], token=OPEN, Tout=[tf.int64])
        handle.set_shape([])
        return tf.data.Dataset.from_tensors(handle).repeat().map(following).take_while(some)

    return tf.data.Dataset.from_tensors(tf.constant(pickle.dumps(reading))).flat_map(opened)


def register() -> None:
    """Make the functions known to TensorFlow in this process; a server calls it before it serves."""
    from tensorflow.python.ops import script_ops

    script_ops._py_funcs._funcs.update({OPEN: _open, NEXT: _next})  # noqa: SLF001 - public functions choose the name


_readings: dict[int, tuple[Mapping[str, Any], Iterator[Mapping[str, Any]]]] = {}
_numbers = itertools.count()
_lock = threading.Lock()


def _open(order: bytes) -> Any:
    import numpy as np

    reading: Reading = pickle.loads(order)  # noqa: S301 - from a graph of this job
    with _lock:
        number = next(_numbers)
    _readings[number] = (reading.table.signature(), reading.chunks())
    return np.int64(number)


def _next(handle: Any) -> Any:
    """The columns of the next chunk; without examples at the end."""
    import numpy as np

    signature, chunks = _readings[int(handle)]
    columns = next(chunks, None)
    if columns is None:
        del _readings[int(handle)]
        return [np.empty((0, *spec.shape[1:]), spec.dtype.as_numpy_dtype) for spec in signature.values()]
    return [columns[name] for name in signature]
