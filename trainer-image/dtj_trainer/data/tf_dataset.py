"""Makes a tf.data.Dataset that reads from a Reader of this process.

`Dataset.from_generator` copies each array. Here TensorFlow takes the arrays without a copy, from two registered Python
functions; the graph holds the number of the source in `_sources`.
"""

import atexit
import itertools
import mmap
import threading
import time
import weakref
from collections.abc import Generator
from typing import Any

from dtj_trainer.compat import tensorflow as compat
from dtj_trainer.data.reader import Batches, Chunks, Reader

OPEN, NEXT = "dtj_trainer.data.open", "dtj_trainer.data.next"
CHUNKS_WAITING = 2
"""Chunks that are buffered between Python and TensorFlow."""
AUTOTUNE = -1
SHUTDOWN_SECONDS = 2.0
"""How long the end of the program waits for a piece that is being read."""
IDLE_SECONDS = 0.1
"""After so long without a call TensorFlow's buffers are full: it needs milliseconds for a piece."""


def batches(reader: Reader, *, drop_remainder: bool) -> Any:
    """Return a tf.data.Dataset of batches of `reader.shard.batch` examples, for a table that takes batches."""
    import tensorflow as tf

    names = list(reader.table.signature())
    source = Batches(reader, drop_remainder)

    def to_batches(*columns: Any) -> Any:
        found = reader.table.example(dict(zip(names, columns, strict=True)))
        return tf.data.Dataset.from_tensor_slices(found)  # parts of the columns, where unbatch() would copy them

    return _dataset_of_pieces(source).flat_map(_without_autograph(to_batches))


def examples(reader: Reader) -> Any:
    """Return a tf.data.Dataset of single examples."""
    table = reader.table
    names = list(table.signature())

    def to_example(*columns: Any) -> Any:
        chunk = dict(zip(names, columns, strict=True))
        return table.example(chunk) if table.takes_batches else chunk

    found = _dataset_of_pieces(Chunks(reader)).map(_without_autograph(to_example)).prefetch(CHUNKS_WAITING).unbatch()
    return found if table.takes_batches else found.map(table.example, num_parallel_calls=AUTOTUNE, deterministic=True)


def _dataset_of_pieces(source: Batches | Chunks) -> Any:
    """Return a tf.data.Dataset of the pieces of `source`, as tuples of columns."""
    import tensorflow as tf

    _register()
    specs = source.specs()
    _sources.append(source)

    def next_piece(handle: Any) -> Any:
        piece = tf.raw_ops.PyFunc(input=[handle], token=NEXT, Tout=[spec.dtype for spec in specs])
        for tensor, spec in zip(piece, specs, strict=True):
            tensor.set_shape(spec.shape)
        return tuple(piece)

    def not_empty(*piece: Any) -> Any:
        return tf.shape(piece[0])[0] > 0

    def open_source(source_number: Any) -> Any:
        (handle,) = tf.raw_ops.PyFunc(input=[source_number], token=OPEN, Tout=[tf.int64])
        handle.set_shape([1])
        pieces = tf.data.Dataset.from_tensors(handle).repeat().map(_without_autograph(next_piece))
        return pieces if source.reader.repeat else pieces.take_while(_without_autograph(not_empty))

    return tf.data.Dataset.from_tensors(tf.constant(len(_sources) - 1, tf.int64)).flat_map(
        _without_autograph(open_source)
    )


def _without_autograph(function: Any) -> Any:
    """Exclude a function from AutoGraph, which would take longer to convert it than TensorFlow to trace it."""
    import tensorflow as tf

    return tf.autograph.experimental.do_not_convert(function)


def _register() -> None:
    """Register the Python functions with TensorFlow."""
    _functions.update({OPEN: _open_iterator, NEXT: compat.without_conversion(_next_piece)})
    compat.register_python_functions(_functions)


_functions: dict[str, Any] = {}
"""The registered functions; TensorFlow holds weak references only."""
_sources: list[Batches | Chunks] = []
"""The sources of this process's datasets: few, made once, and never removed."""
_iterators: dict[int, tuple[Batches | Chunks, Generator[list[Any], None, None]]] = {}
_numbers = itertools.count()
_lock = threading.Lock()
_stopping = threading.Event()
_running = _calls = 0
"""Calls of `_next_piece`: those still running, and all so far."""


def _stop_reading() -> None:
    """Stop TensorFlow's threads from reading: one that calls Python while the interpreter exits would block the exit.

    From then on every read fails, and the threads stop when their buffers are full of errors.
    """
    _stopping.set()
    deadline = time.monotonic() + SHUTDOWN_SECONDS
    while _iterators and time.monotonic() < deadline:
        before = _calls
        time.sleep(IDLE_SECONDS)
        if not _running and _calls == before:
            return


atexit.register(_stop_reading)


def _open_iterator(source_number: Any) -> Any:
    """Open an iterator over a source, and return its number.

    The number is in memory that TensorFlow takes without a copy and frees with its iterator; that closes ours. A call
    from TensorFlow would not do: it could wait for the thread that makes it.
    """
    import numpy as np

    source = _sources[int(source_number)]
    with _lock:
        number = next(_numbers)
    _iterators[number] = (source, source.pieces())
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    weakref.finalize(memory, _close_iterator, number).atexit = False
    handle = np.frombuffer(memory, np.int64, 1)
    handle[0] = number
    return handle


def _close_iterator(number: int) -> None:
    """Close an iterator that TensorFlow has deleted: frees its blocks and threads."""
    _, pieces = _iterators.pop(number)
    pieces.close()


def _next_piece(handle: Any) -> Any:
    """Return the next piece of an iterator; an empty one at the end."""
    import numpy as np

    global _running, _calls  # noqa: PLW0603 - what `_stop_reading` waits for
    with _lock:
        _calls += 1
        _running += 1
    try:
        if _stopping.is_set():
            raise RuntimeError("the program ends")
        source, pieces = _iterators[int(handle[0])]
        piece = next(pieces, None)
        if piece is None and source.reader.repeat:
            raise RuntimeError("the reading has failed")  # else TensorFlow would ask for examples without end
        return piece or [
            np.empty([0, *(size or 0 for size in spec.shape[1:])], spec.dtype.as_numpy_dtype) for spec in source.specs()
        ]
    finally:
        with _lock:
            _running -= 1
