"""How a tf.data graph reads a table, in whatever process the graph runs.

`Dataset.from_generator` works only in the process that made it, and ParameterServer's workers run graphs that the chief
has made. So the two functions here go by names that every process of ours knows (`register`), and what they need to
know travels in the graph, pickled: TensorFlow's servers trust who speaks to them anyway.
"""

import atexit
import itertools
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from dtj_trainer.data.reading import Batches, Chunks, Reading

OPEN, NEXT = "dtj_trainer.data.open", "dtj_trainer.data.next"
CHUNKS_WAITING = 2
"""Chunks that wait between Python and TensorFlow."""
AUTOTUNE = -1
END_SECONDS = 2.0
"""How long the end of a program waits for a piece that is being read."""


def batches(reading: Reading, *, drop_remainder: bool) -> Any:
    """A tf.data.Dataset of batches of `reading.share.batch` examples, for a table that takes batches."""
    work = Batches(reading, drop_remainder)
    names = list(reading.table.signature())
    found = _handed_over(work, lambda *columns: reading.table.example(dict(zip(names, columns, strict=True))))
    return found.unbatch() if work.together > 1 else found


def examples(reading: Reading) -> Any:
    """A tf.data.Dataset of single examples."""
    table = reading.table
    names = list(table.signature())

    def named(*columns: Any) -> Any:
        chunk = dict(zip(names, columns, strict=True))
        return table.example(chunk) if table.takes_batches else chunk

    found = _handed_over(Chunks(reading), named).prefetch(CHUNKS_WAITING).unbatch()
    return found if table.takes_batches else found.map(table.example, num_parallel_calls=AUTOTUNE, deterministic=True)


def _handed_over(work: Batches | Chunks, form: Callable[..., Any]) -> Any:
    """A tf.data.Dataset of what `form` makes of the pieces of `work`."""
    import tensorflow as tf

    register()
    specs = work.specs()

    def following(handle: Any) -> Any:
        piece = tf.raw_ops.PyFunc(input=[handle], token=NEXT, Tout=[spec.dtype for spec in specs])
        for tensor, spec in zip(piece, specs, strict=True):
            tensor.set_shape(spec.shape)
        return tuple(piece)

    def some(*piece: Any) -> Any:
        return tf.shape(piece[0])[0] > 0

    def opened(order: Any) -> Any:
        (handle,) = tf.raw_ops.PyFunc(input=[order], token=OPEN, Tout=[tf.int64])
        handle.set_shape([])
        handles = tf.data.Dataset.from_tensors(handle).repeat()
        if work.reading.repeat:
            return handles.map(_plain(lambda each: form(*following(each))))
        return handles.map(_plain(following)).take_while(_plain(some)).map(_plain(form))

    return tf.data.Dataset.from_tensors(tf.constant(pickle.dumps(work))).flat_map(_plain(opened))


def _plain(function: Any) -> Any:
    """AutoGraph would take longer to rewrite it than TensorFlow to trace it."""
    import tensorflow as tf

    return tf.autograph.experimental.do_not_convert(function)


def register() -> None:
    """Make the functions known to TensorFlow in this process; a server calls it before it serves."""
    from tensorflow.python.ops import script_ops

    script_ops._py_funcs._funcs.update({OPEN: _open, NEXT: _next})  # noqa: SLF001 - public functions choose the name


_open_works: dict[int, tuple[Batches | Chunks, Iterator[list[Any]]]] = {}
_numbers = itertools.count()
_lock = threading.Lock()
_ending = threading.Event()
_running = 0
"""Calls of `_next` that have not returned."""


def _end() -> None:
    """Let TensorFlow's threads read no more: one that calls Python while the interpreter ends never lets it end.

    They fill their buffers with errors that nobody sees, and are still.
    """
    _ending.set()
    deadline = time.monotonic() + END_SECONDS
    while _open_works and time.monotonic() < deadline:
        time.sleep(0.02)
        if not _running:
            return


atexit.register(_end)


def _open(order: bytes) -> Any:
    import numpy as np

    work: Batches | Chunks = pickle.loads(order)  # noqa: S301 - from a graph of this job
    with _lock:
        number = next(_numbers)
    _open_works[number] = (work, work.pieces())
    return np.int64(number)


def _next(handle: Any) -> Any:
    """The next piece; without examples at the end."""
    import numpy as np

    global _running  # noqa: PLW0603 - what `_end` waits for
    if _ending.is_set():
        raise RuntimeError("the program ends")
    work, pieces = _open_works[int(handle)]
    with _lock:
        _running += 1
    try:
        piece = next(pieces, None)
    finally:
        with _lock:
            _running -= 1
    if piece is not None:
        return piece
    del _open_works[int(handle)]
    return [np.empty([0, *(size or 0 for size in spec.shape[1:])], spec.dtype.as_numpy_dtype) for spec in work.specs()]
