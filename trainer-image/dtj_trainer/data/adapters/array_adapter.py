"""The adapter of arrays, tensors, frames and sparse matrices in memory, and of structures of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dtj_trainer.compat.types import Dataset, Structure, Tensor
from dtj_trainer.data.adapters.batch_split import AUTOTUNE, Share, split_for_replicas, without_autotune
from dtj_trainer.data.adapters.tensor_rows import take_rows
from dtj_trainer.data.position import DataPosition
from dtj_trainer.data.sharding import BatchSize, Sharding
from dtj_trainer.errors import PreflightFailed


@dataclass(frozen=True, slots=True)
class ArrayData:
    """Arrays whose first axis counts the same `size` examples, as TensorFlow takes them; `batch` is their structure."""

    batch: Structure
    size: int

    @classmethod
    def of(cls, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> "ArrayData":
        """Return it from the arguments of `fit`.

        Raises:
            PreflightFailed: arrays of different lengths, none at all, or weights that do not fit them.
        """
        x, y, sample_weight = (to_arrays(each) for each in (x, y, sample_weight))
        if class_weight is not None:
            sample_weight = _class_weights(y, sample_weight, class_weight)
        elif sample_weight is not None and isinstance(y, tuple | dict) and not isinstance(sample_weight, tuple | dict):
            sample_weight = _for_each_output(y, sample_weight)
        lengths = {
            name: sorted({int(leaf.shape[0]) for leaf in _leaves(part)})
            for name, part in (("x", x), ("y", y), ("sample_weight", sample_weight))
            if part is not None
        }
        found = sorted({length for each in lengths.values() for length in each})
        if len(found) > 1:
            told = ", ".join(f"{name} has {' and '.join(map(str, each))}" for name, each in lengths.items())
            raise PreflightFailed(f"x, y and sample_weight have to be of the same examples, and {told}")
        if not found or not found[0]:
            raise PreflightFailed("x has no examples; give arrays with at least one row")
        return cls(_packed(x, y, sample_weight), found[0])

    def split(self, share: float) -> tuple["ArrayData", "ArrayData"]:
        """Return the first part of the examples, and the last part, which has `share` of them, as in Keras.

        Raises:
            PreflightFailed: one of the parts would be empty.
        """
        at = int(self.size * (1.0 - share))
        if not 0 < at < self.size:
            raise PreflightFailed(
                f"validation_split={share} of {self.size} examples leaves none for training or for validation; "
                "give another share, or validation_data="
            )
        return self._range(0, at), self._range(at, self.size)

    def _range(self, start: int, stop: int) -> "ArrayData":
        import tensorflow as tf

        def rows(array: Any) -> Any:
            if isinstance(array, tf.SparseTensor):
                return take_rows(array, tf.range(start, stop, dtype=tf.int64))
            return array[start:stop]

        return ArrayData(tf.nest.map_structure(rows, self.batch), stop - start)


class ArrayAdapter:
    """Arrays that every process has as a whole: in each pass they are put into one order and cut into global batches.

    The last batch of a pass may be smaller.
    """

    reads_in_python = False
    batches_are_global = True
    passes_end = True

    def __init__(
        self,
        data: ArrayData,
        sharding: Sharding,
        batch_size: BatchSize,
        *,
        shuffle: bool = False,
        seed: int = 0,
        most_batches: int | None = None,
    ) -> None:
        assert batch_size.total is not None
        self._data = data
        self._sharding = sharding
        self._total = batch_size.total
        self._shuffle = shuffle
        self._seed = seed
        self._most_batches = most_batches
        self.batch_size = batch_size

    @property
    def element_spec(self) -> Any:
        """Return the structure of one batch."""
        import tensorflow as tf

        def spec(array: Any) -> Any:
            shape = tf.TensorShape([None, *array.shape[1:]])
            if isinstance(array, tf.SparseTensor):
                return tf.SparseTensorSpec(shape, array.dtype)
            if isinstance(array, tf.RaggedTensor):
                return tf.RaggedTensorSpec(shape, array.dtype, array.ragged_rank, array.row_splits.dtype)
            return tf.TensorSpec(shape, tf.as_dtype(array.dtype))

        return tf.nest.map_structure(spec, self._data.batch)

    @property
    def batches_per_pass(self) -> int:
        """Return the batches in one pass, the smaller last one among them."""
        return -(-self._data.size // self._total)

    def batches_before(self, position: DataPosition) -> int:
        """Return how many batches of today's size end the pass with those that are left of it."""
        passes, offset = divmod(position.examples, self._data.size)
        left = -(-(self._data.size - offset) // self._total)
        return (passes + 1) * self.batches_per_pass - left

    @property
    def fingerprint(self) -> str:
        """Return the number of examples."""
        return f"{self._data.size} examples"

    def dataset(self, position: DataPosition) -> Any:
        """Return infinite batches for the replicas of this process, or Shares of them."""
        numbers = split_for_replicas(self._order(position), self._sharding, self._size)
        return self._taken(numbers).prefetch(AUTOTUNE)

    def server_dataset(self, workers: int, index: int, position: DataPosition) -> Any:
        """Return infinite global batches: every nth of the order, for one of n servers."""
        return self._taken(self._order(position).shard(workers, index)).prefetch(AUTOTUNE)

    def evaluation_dataset(self) -> Any:
        """Return this process's part of each batch, in order, once."""
        import tensorflow as tf

        sharding = self._sharding
        numbers = tf.data.Dataset.range(self._data.size).batch(self._total).take(self._most_batches or -1)
        own = numbers.map(lambda each: each[sharding.rank :: sharding.workers])
        return without_autotune(self._taken(own).prefetch(AUTOTUNE))

    @property
    def _size(self) -> int | None:
        """The size of all batches; None if the last one is smaller."""
        return None if self._data.size % self._total else self._total

    def _order(self, position: DataPosition) -> Any:
        """Return the numbers of the examples of each global batch, from `position` on."""
        import tensorflow as tf

        size, total, known = self._data.size, self._total, self._size
        first, offset = divmod(position.examples, size)
        if offset % total:
            known = None
        as_graph = tf.autograph.experimental.do_not_convert  # AutoGraph takes longer than tracing does

        def batches(number: Tensor) -> Dataset:
            numbers = tf.range(size, dtype=tf.int64)
            if self._shuffle:
                seed = tf.stack([tf.constant(self._seed, tf.int64), number])
                numbers = tf.random.experimental.stateless_shuffle(numbers, seed=seed)
            start = tf.where(number == first, tf.constant(offset, tf.int64), 0)

            def batch(place: Tensor) -> Tensor:
                begin = start + place * total
                return numbers[begin : begin + total]

            found: Dataset = tf.data.Dataset.range((size - start + total - 1) // total).map(as_graph(batch))
            return found

        order = tf.data.Dataset.range(first, tf.int64.max).flat_map(as_graph(batches))
        if known is None:
            return order
        return order.map(as_graph(lambda numbers: tf.ensure_shape(numbers, [total])))

    def _taken(self, numbers: Any) -> Any:
        """Return the batches of these numbers, which may be Shares."""
        import tensorflow as tf

        with tf.device("/cpu:0"):
            tensors = tf.nest.map_structure(
                lambda array: array if tf.is_tensor(array) else tf.convert_to_tensor(array), self._data.batch
            )

        def take(numbers: Tensor) -> Structure:
            return tf.nest.map_structure(lambda tensor: take_rows(tensor, numbers), tensors)

        def take_share(share: Share) -> Share:
            return Share(take(share.batch), share.examples, share.total)

        shares = isinstance(numbers.element_spec, Share)
        function = tf.autograph.experimental.do_not_convert(take_share if shares else take)
        return numbers.map(function, num_parallel_calls=AUTOTUNE, deterministic=True)


def holds_arrays(data: Any) -> bool:
    """Return whether this is an array or tensor, or a list, tuple or dict of them."""
    if isinstance(data, dict):
        return bool(data) and all(map(holds_arrays, data.values()))
    if isinstance(data, list | tuple):
        return bool(data) and all(map(holds_arrays, data))
    return _is_array(data)


def to_arrays(structure: Any) -> Any:
    """Return arrays of any library as NumPy arrays, or as tensors where they are ragged or sparse; lists as tuples.

    Floats get Keras' floatx, as in Keras; a Series becomes a column.
    """
    if structure is None:
        return None
    if isinstance(structure, dict):
        return {key: to_arrays(value) for key, value in structure.items()}
    if isinstance(structure, list | tuple):
        return tuple(map(to_arrays, structure))
    if not _is_array(structure):
        raise PreflightFailed(f"x and y hold a {type(structure).__name__}; give arrays, tensors or frames")
    return _to_array(structure)


def _to_array(given: Any) -> Any:
    import keras
    import numpy as np
    import tensorflow as tf

    floatx = keras.config.floatx()
    if _is_scipy_sparse(given):
        rows = given.tocsr().sorted_indices().tocoo()
        indices = np.stack([rows.row, rows.col], 1).astype("int64")
        given = tf.SparseTensor(indices, rows.data, rows.shape)
    if isinstance(given, tf.SparseTensor | tf.RaggedTensor):
        found = tf.cast(given, floatx) if given.dtype.is_floating else given
        return tf.sparse.reorder(found) if isinstance(found, tf.SparseTensor) else found
    if tf.is_tensor(given) and given.dtype == tf.string:
        return given
    kind = type(given)
    array = np.asarray(given)
    if kind.__name__ == "Series" and kind.__module__.startswith("pandas"):
        array = array[:, None]
    if array.dtype == object and array.size and all(isinstance(each, str) for each in array.flat):
        return tf.convert_to_tensor(array.astype(str))
    if array.ndim == 0:
        raise PreflightFailed("x and y hold a single number; give arrays whose first axis counts the examples")
    is_float = np.issubdtype(array.dtype, np.floating) or array.dtype.name == "bfloat16"
    return array.astype(floatx) if is_float and array.dtype.name != floatx else array


def _is_array(data: Any) -> bool:
    import tensorflow as tf

    return hasattr(data, "__array__") or tf.is_tensor(data) or _is_scipy_sparse(data)


def _is_scipy_sparse(data: Any) -> bool:
    return type(data).__module__.startswith("scipy.sparse") and hasattr(data, "tocsr")


def _packed(x: Any, y: Any, sample_weight: Any) -> Structure:
    if y is None and sample_weight is None:
        return (x,) if isinstance(x, tuple) else x
    return (x, y) if sample_weight is None else (x, y, sample_weight)


def _leaves(structure: Any) -> list[Any]:
    import tensorflow as tf

    return [leaf for leaf in tf.nest.flatten(structure) if leaf is not None]


def _for_each_output(y: Any, weight: Any) -> Any:
    """Return the weight of each example for each output of a model.

    Raises:
        PreflightFailed: it is more than one number an example.
    """
    import tensorflow as tf

    if len(weight.shape) > 1 and tuple(weight.shape[1:]) != (1,):
        raise PreflightFailed(
            f"sample_weight of shape {tuple(weight.shape)} is for one output, and y has several; give one number an "
            "example, or one array an output"
        )
    return tf.nest.map_structure(lambda _: weight, y)


def _class_weights(y: Any, sample_weight: Any, class_weight: Mapping[int, float]) -> Any:
    """Return the weight of each example, that of its class; 1 where `class_weight` does not name it.

    Raises:
        PreflightFailed: there are no classes, several outputs, or sample weights too.
    """
    import numpy as np

    if y is None:
        raise PreflightFailed("class_weight needs the classes in y=")
    if sample_weight is not None:
        raise PreflightFailed("class_weight and sample_weight cannot be given together; multiply them yourself")
    if isinstance(y, tuple | dict):
        raise PreflightFailed("class_weight is for models with one output; give sample_weight= for each of them")
    classes = np.asarray(y)
    if classes.ndim > 1:
        classes = classes.argmax(-1) if classes.shape[-1] != 1 else classes[..., 0]
    found, places = np.unique(np.round(classes).astype("int64"), return_inverse=True)
    weights = np.array([class_weight.get(int(each), 1.0) for each in found], "float32")
    return weights[places.reshape(classes.shape)]


def class_weights_of_batch(y: Tensor, class_weight: Mapping[int, float]) -> Tensor:
    """Return the weight of each example of a batch in a tf.data.Dataset, that of its class."""
    import tensorflow as tf

    if y.shape.rank is None or y.shape.rank > 1:
        y = tf.squeeze(y, -1) if y.shape[-1] == 1 else tf.argmax(y, -1)
    y = tf.cast(tf.round(tf.cast(y, tf.float32)), tf.int64)
    weights = tf.ones_like(y, tf.float32)
    for number, weight in class_weight.items():
        weights = tf.where(y == number, tf.cast(weight, tf.float32), weights)
    return weights
