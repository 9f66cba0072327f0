"""Arrays in memory as a source, with random access to every example."""

from typing import Any

from dtj_trainer.errors import PreflightFailed


class Arrays:
    """A source of arrays whose first axis is the example; `structure` is one array, a tuple, or a dict of them."""

    def __init__(self, structure: Any) -> None:
        import numpy as np

        self.structure = _map(np.asarray, structure)
        leaves = list(_leaves(self.structure))
        sizes = sorted({len(leaf) for leaf in leaves})
        if not leaves or sizes[0] == 0:
            raise PreflightFailed("dtj.data.numpy got no examples; give arrays with at least one row")
        if len(sizes) > 1:
            raise PreflightFailed(
                f"dtj.data.numpy got arrays of different lengths ({', '.join(map(str, sizes))}); "
                "their first axis has to count the same examples"
            )
        self.size = int(sizes[0])

    def batch_spec(self, size: int) -> Any:
        """Return the tf.TensorSpecs of a batch of `size`."""
        import tensorflow as tf

        return _map(lambda a: tf.TensorSpec([size, *a.shape[1:]], tf.as_dtype(a.dtype)), self.structure)

    def tensors(self) -> Any:
        """Return the arrays as tensors on the host; runs a TensorFlow op, so only after the strategy is built."""
        import tensorflow as tf

        with tf.device("/cpu:0"):
            return _map(tf.convert_to_tensor, self.structure)


def numpy(x: Any, y: Any = None) -> Arrays:
    """Read examples from arrays; x and y may be arrays, tuples or dicts of arrays. Elements are (x, y), or x alone."""
    return Arrays(x if y is None else (x, y))


def _map(function: Any, structure: Any) -> Any:
    if isinstance(structure, dict):
        return {key: _map(function, value) for key, value in structure.items()}
    if isinstance(structure, tuple):
        return tuple(_map(function, value) for value in structure)
    return function(structure)


def _leaves(structure: Any) -> Any:
    if isinstance(structure, dict):
        structure = tuple(structure.values())
    if isinstance(structure, tuple):
        for value in structure:
            yield from _leaves(value)
    else:
        yield structure
