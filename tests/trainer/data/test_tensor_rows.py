"""Examples of dense, ragged and sparse batches, and the parts that replicas get of them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from dtj_trainer.data.adapters.array_data import to_arrays
from dtj_trainer.data.adapters.batch_split import split_for_replicas
from dtj_trainer.data.adapters.tensor_rows import batch_length, every_nth_row, row_range, take_rows
from dtj_trainer.data.sharding import Sharding

pytestmark = pytest.mark.trainer

ROWS = [[0, 1], [2, 0], [0, 0], [3, 4], [5, 0], [0, 6], [7, 0]]


def _dense() -> Any:
    import tensorflow as tf

    return tf.constant(ROWS)


def _ragged() -> Any:
    import tensorflow as tf

    return tf.ragged.constant([[value for value in row if value] for row in ROWS])


def _sparse() -> Any:
    import tensorflow as tf

    return tf.sparse.from_dense(ROWS)


def _scipy() -> Any:
    from scipy import sparse  # type: ignore[import-untyped]

    return to_arrays(sparse.csr_matrix(np.array(ROWS)))


KINDS: Mapping[str, Callable[[], Any]] = {"dense": _dense, "ragged": _ragged, "sparse": _sparse, "scipy": _scipy}


def rows_of(tensor: Any) -> list[list[int]]:
    """The rows of a tensor, without zeros."""
    import tensorflow as tf

    if isinstance(tensor, tf.SparseTensor):
        tensor = tf.sparse.to_dense(tensor)
    found = tensor.to_list() if isinstance(tensor, tf.RaggedTensor) else tensor.numpy().tolist()
    return [[value for value in row if value] for row in found]


EXPECTED = [[value for value in row if value] for row in ROWS]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_counted_and_taken_in_any_order(kind):
    import tensorflow as tf

    tensor = KINDS[kind]()
    assert int(batch_length((tensor,))) == 7
    for numbers in ([6, 0, 3], [2], [], [4, 4, 1]):
        taken = take_rows(tensor, tf.constant(numbers, tf.int64))
        assert rows_of(taken) == [EXPECTED[number] for number in numbers]


@pytest.mark.parametrize("kind", KINDS)
def test_ranges_and_every_nth_row_are_as_of_lists(kind):
    import tensorflow as tf

    batch = {"x": KINDS[kind]()}
    for start, stop in ((0, 7), (2, 5), (3, 3)):
        found = row_range(batch, tf.constant(start, tf.int64), tf.constant(stop, tf.int64))
        assert rows_of(found["x"]) == EXPECTED[start:stop]
    for step in (2, 3, 8):
        for first in range(step):
            found = every_nth_row(batch, tf.constant(first), step)
            assert rows_of(found["x"]) == EXPECTED[first::step]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("workers", "replicas", "counts"), [(2, 2, [4, 3]), (3, 3, [3, 2, 2]), (2, 4, [2, 2, 2, 1])])
def test_replicas_get_parts_of_nearly_the_same_size_and_each_row_once(kind, workers, replicas, counts):
    import tensorflow as tf

    def shares(rank: int) -> list[Any]:
        dataset = tf.data.Dataset.from_tensors((KINDS[kind](), tf.range(7)))
        return list(split_for_replicas(dataset, Sharding(workers, rank, replicas), None))

    found = [share for rank in range(workers) for share in shares(rank)]
    assert [int(share.examples) for share in found] == counts
    assert {int(share.total) for share in found} == {7}
    assert [row for share in found for row in rows_of(share.batch[0])] == EXPECTED
    assert [int(number) for share in found for number in share.batch[1]] == list(range(7))
