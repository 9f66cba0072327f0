"""Arrays of any library, as `fit` takes them: converted, checked against one another, and divided."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dtj_trainer.compat.types import Structure, Tensor
from dtj_trainer.data.adapters.tensor_rows import take_rows
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
