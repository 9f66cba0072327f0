"""dtj.predict: predicts with a model, each process its part of each batch."""

from collections.abc import Iterator
from typing import Any

from dtj_trainer.compat.types import Array, Model, Structure, Tensor
from dtj_trainer.context import TrainContext
from dtj_trainer.data.adapters.adapter import DEFAULT_BATCH
from dtj_trainer.data.adapters.array_data import holds_arrays, to_arrays
from dtj_trainer.data.adapters.batch_split import is_dataset
from dtj_trainer.data.adapters.given_data import is_generator, is_py_dataset
from dtj_trainer.data.adapters.tensor_rows import batch_length, row_range
from dtj_trainer.data.sampler import even_share
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.initialization import init
from dtj_trainer.ipc.takeover import process_takeover
from dtj_trainer.process.exit import exit_on_failure
from dtj_trainer.training.keras.replication import release


def predict(
    model: Any,
    x: Any,
    batch_size: int | None = None,
    verbose: str | int = "auto",
    steps: int | None = None,
    callbacks: Any = None,
) -> Any:
    """Predict with a model; every process calls it, predicts its part of each batch, and gets all rows in x's order.

    The arguments are those of `keras.Model.predict`. Under a strategy of one process this is its own `predict`.

    Raises:
        PreflightFailed: data of a kind that cannot be divided here.
    """
    import keras

    context = init()
    with exit_on_failure(context):
        process_takeover().wait()
        release(model, context)
        shown = verbose if context.is_chief else 0
        if context.workers == 1:
            return model.predict(x, batch_size=batch_size, verbose=shown, steps=steps, callbacks=callbacks)
        calls = keras.callbacks.CallbackList(callbacks, model=model)
        calls.on_predict_begin()
        parts = _own_predictions(model, x, batch_size, steps, context, calls)
        calls.on_predict_end()
        return _gathered(parts, context)


class _Parts:
    """The predictions of this process, and the number of rows of each process's part of each batch, in order."""

    def __init__(self) -> None:
        self.outputs: list[Structure] = []
        self.lengths: list[list[int]] = []


def _own_predictions(
    model: Model, x: Any, batch_size: int | None, steps: int | None, context: TrainContext, calls: Any
) -> _Parts:
    import tensorflow as tf

    parts, rank, workers = _Parts(), context.rank, context.workers
    for number, batch in enumerate(_batches(x, batch_size, steps)):
        if number == steps:
            break
        calls.on_predict_batch_begin(number)
        total = int(batch_length(batch))
        shares = [even_share(total, workers, each) for each in range(workers)]
        empty = not shares[rank]
        own = range(total) if empty else shares[rank]
        rows = row_range(batch, tf.constant(own.start, tf.int64), tf.constant(own.stop, tf.int64))
        output = model.predict_on_batch(rows)  # type: ignore[attr-defined]
        calls.on_predict_batch_end(number, {"outputs": output})
        parts.outputs.append(tf.nest.map_structure(lambda each, none=empty: each[:0] if none else each, output))
        parts.lengths.append([len(share) for share in shares])
    if not parts.outputs:
        raise PreflightFailed("x has no examples to predict; check its files and filters")
    return parts


def _batches(x: Any, batch_size: int | None, steps: int | None) -> Iterator[Structure]:
    """Yield what a model takes of each global batch; of arrays, `steps` batches are all of them, as in Keras."""
    import keras
    import tensorflow as tf

    if holds_arrays(x):
        arrays = to_arrays(x)
        size = int(tf.nest.flatten(arrays)[0].shape[0])
        batch_size = batch_size or (-(-size // steps) if steps else DEFAULT_BATCH)
        for start in range(0, size, batch_size):
            stop = tf.constant(min(size, start + batch_size), tf.int64)
            rows = row_range(arrays, tf.constant(start, tf.int64), stop)
            yield tf.nest.map_structure(lambda each: each if tf.is_tensor(each) else tf.convert_to_tensor(each), rows)
    elif is_dataset(x) or is_generator(x):
        for batch in x:
            yield keras.utils.unpack_x_y_sample_weight(batch)[0]
    elif is_py_dataset(x):
        for number in range(int(x.num_batches)):
            yield tf.nest.map_structure(tf.convert_to_tensor, keras.utils.unpack_x_y_sample_weight(x[number])[0])
    else:
        raise PreflightFailed(
            f"dtj.predict cannot divide a {type(x).__name__}; give arrays, a tf.data.Dataset, a PyDataset "
            "or a generator"
        )


def _gathered(parts: _Parts, context: TrainContext) -> Structure:
    """Return the rows of all processes in the order of the data."""
    import numpy as np
    import tensorflow as tf

    own = tf.nest.map_structure(lambda *each: np.concatenate(each), *parts.outputs)
    lengths = np.array(parts.lengths)
    starts = np.concatenate([[0], np.cumsum(lengths.sum(0))[:-1]])
    order: list[Array] = []
    for batch in range(len(lengths)):
        before = lengths[:batch].sum(0)
        for process in range(lengths.shape[1]):
            begin = starts[process] + before[process]
            order.append(np.arange(begin, begin + lengths[batch, process]))
    places = np.concatenate(order)
    return tf.nest.map_structure(lambda rows: _all_rows(rows, context)[places], own)


def _all_rows(rows: Array, context: TrainContext) -> Array:
    """Return the rows of all processes, one process after the other."""
    import numpy as np
    import tensorflow as tf

    sent = rows.astype("int32") if rows.dtype == np.bool_ else rows

    @tf.function(autograph=False)
    def gather(own: Tensor) -> Tensor:
        def local() -> Tensor:
            replica = tf.distribute.get_replica_context()
            first = replica.replica_id_in_sync_group % context.local_replicas == 0
            return replica.all_gather(own[: tf.where(first, tf.shape(own)[0], 0)], axis=0)

        return context.strategy.experimental_local_results(context.strategy.run(local))[0]

    found: Array = gather(tf.constant(sent)).numpy().astype(rows.dtype)
    return found
