"""A tf.data.Dataset over a Reader of this process.

`Dataset.from_generator` copies each array. Here TensorFlow takes the arrays as they are, from two functions that it
knows by name, and a graph names what to read by its number in `_works`.
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
"""Chunks that wait between Python and TensorFlow."""
AUTOTUNE = -1
END_SECONDS = 2.0
"""How long the end of a program waits for a piece that is being read."""
STILL_SECONDS = 0.1
"""Without a call TensorFlow has filled its buffers: taking a piece apart takes it some milliseconds."""


def batches(reader: Reader, *, drop_remainder: bool) -> Any:
    """A tf.data.Dataset of batches of `reader.share.batch` examples, for a table that takes batches."""
    import tensorflow as tf

    names = list(reader.table.signature())
    work = Batches(reader, drop_remainder)

    def one_by_one(*columns: Any) -> Any:
        found = reader.table.example(dict(zip(names, columns, strict=True)))
        return tf.data.Dataset.from_tensor_slices(found)  # parts of the columns, where unbatch() would copy them

    return _handed_over(work).flat_map(_plain(one_by_one))


def examples(reader: Reader) -> Any:
    """A tf.data.Dataset of single examples."""
    table = reader.table
    names = list(table.signature())

    def named(*columns: Any) -> Any:
        chunk = dict(zip(names, columns, strict=True))
        return table.example(chunk) if table.takes_batches else chunk

    found = _handed_over(Chunks(reader)).map(_plain(named)).prefetch(CHUNKS_WAITING).unbatch()
    return found if table.takes_batches else found.map(table.example, num_parallel_calls=AUTOTUNE, deterministic=True)


def _handed_over(work: Batches | Chunks) -> Any:
    """A tf.data.Dataset of the pieces of `work`, as tuples of columns."""
    import tensorflow as tf

    _register()
    specs = work.specs()
    _works.append(work)

    def following(handle: Any) -> Any:
        piece = tf.raw_ops.PyFunc(input=[handle], token=NEXT, Tout=[spec.dtype for spec in specs])
        for tensor, spec in zip(piece, specs, strict=True):
            tensor.set_shape(spec.shape)
        return tuple(piece)

    def some(*piece: Any) -> Any:
        return tf.shape(piece[0])[0] > 0

    def opened(work_number: Any) -> Any:
        (handle,) = tf.raw_ops.PyFunc(input=[work_number], token=OPEN, Tout=[tf.int64])
        handle.set_shape([1])
        pieces = tf.data.Dataset.from_tensors(handle).repeat().map(_plain(following))
        return pieces if work.reader.repeat else pieces.take_while(_plain(some))

    return tf.data.Dataset.from_tensors(tf.constant(len(_works) - 1, tf.int64)).flat_map(_plain(opened))


def _plain(function: Any) -> Any:
    """AutoGraph would take longer to rewrite it than TensorFlow to trace it."""
    import tensorflow as tf

    return tf.autograph.experimental.do_not_convert(function)


def _register() -> None:
    """Make the functions known to TensorFlow."""
    _functions.update({OPEN: _open, NEXT: compat.without_conversion(_next)})
    compat.register_python_functions(_functions)


_functions: dict[str, Any] = {}
"""TensorFlow holds them weakly."""
_works: list[Batches | Chunks] = []
"""What datasets of this process read; they are few, and made once."""
_open_works: dict[int, tuple[Batches | Chunks, Generator[list[Any], None, None]]] = {}
_numbers = itertools.count()
_lock = threading.Lock()
_ending = threading.Event()
_running = _calls = 0
"""Calls of `_next`: those that have not returned, and all there were."""


def _end() -> None:
    """Let TensorFlow's threads read no more: one that calls Python while the interpreter ends never lets it end.

    They fill their buffers with errors that nobody sees, and are still.
    """
    _ending.set()
    deadline = time.monotonic() + END_SECONDS
    while _open_works and time.monotonic() < deadline:
        before = _calls
        time.sleep(STILL_SECONDS)
        if not _running and _calls == before:
            return


atexit.register(_end)


def _open(work_number: Any) -> Any:
    """Begin to read, and return the number of the reading. It lies in memory which TensorFlow takes as it is and frees
    with the iterator: so we hear of that without a call, which could wait for the thread that it is made in.
    """
    import numpy as np

    work = _works[int(work_number)]
    with _lock:
        number = next(_numbers)
    _open_works[number] = (work, work.pieces())
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    weakref.finalize(memory, _let_go, number).atexit = False
    handle = np.frombuffer(memory, np.int64, 1)
    handle[0] = number
    return handle


def _let_go(number: int) -> None:
    """Nobody reads on: neither blocks nor threads are needed."""
    _, pieces = _open_works.pop(number)
    pieces.close()


def _next(handle: Any) -> Any:
    """The next piece; without examples at the end."""
    import numpy as np

    global _running, _calls  # noqa: PLW0603 - what `_end` waits for
    with _lock:
        _calls += 1
        _running += 1
    try:
        if _ending.is_set():
            raise RuntimeError("the program ends")
        work, pieces = _open_works[int(handle[0])]
        piece = next(pieces, None)
        if piece is None and work.reader.repeat:
            raise RuntimeError("the reading has failed")  # else TensorFlow would ask for examples without end
        return piece or [
            np.empty([0, *(size or 0 for size in spec.shape[1:])], spec.dtype.as_numpy_dtype) for spec in work.specs()
        ]
    finally:
        with _lock:
            _running -= 1
