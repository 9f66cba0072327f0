"""PyDatasets, generators and DataLoaders as data: which batches each process gets, and what is refused."""

from functools import cache

import numpy as np
import pytest

from dtj_trainer.data.adapters.batch_split import Share
from dtj_trainer.data.adapters.generator_adapter import KEPT, GeneratorAdapter
from dtj_trainer.data.adapters.given_data import is_generator
from dtj_trainer.data.adapters.py_dataset_adapter import PyDatasetAdapter
from dtj_trainer.data.adapters.python_batches import spec_of, to_batch
from dtj_trainer.data.position import DataPosition
from dtj_trainer.data.sharding import Sharding
from dtj_trainer.errors import PreflightFailed

pytestmark = pytest.mark.trainer

ALONE = Sharding(1, 0, 1)


@cache
def numbers_class():
    """The class of Numbers; a test file is read without Keras."""
    import keras

    class Numbers(keras.utils.PyDataset):
        """Batches of three examples, all with the number of their batch."""

        def __init__(self, batches=4, **settings):
            super().__init__(**settings)
            self.batches = batches
            self.calls = []

        @property
        def num_batches(self):
            return self.batches

        def __getitem__(self, number):
            return np.full([3, 2], number, "float32"), np.full([3], number)

        def on_epoch_begin(self):
            self.calls.append("begin")

        def on_epoch_end(self):
            self.calls.append("end")

    return Numbers


def numbers(*arguments, **settings):
    """A PyDataset of batches of three examples, all with the number of their batch."""
    return numbers_class()(*arguments, **settings)


def numbers_of(adapter, count, start=0):
    """The numbers of the batches that a training gets."""
    found = adapter.dataset(DataPosition(batches=start)).take(count)
    return [int(y[0]) for _, y in found]


class TestPyDataset:
    def test_its_batches_come_in_order_pass_after_pass(self):
        adapter = PyDatasetAdapter(numbers(), ALONE)
        assert adapter.batches_per_pass == 4
        assert numbers_of(adapter, 10) == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]

    def test_shuffled_each_pass_has_an_order_of_its_own_that_follows_from_the_seed(self):
        def order(seed):
            found = numbers_of(PyDatasetAdapter(numbers(20), ALONE, shuffle=True, seed=seed), 40)
            assert sorted(found[:20]) == sorted(found[20:]) == list(range(20))
            return found

        assert order(1) == order(1)
        assert order(1) != order(2)
        assert order(1)[:20] != order(1)[20:]

    @pytest.mark.parametrize("batches", [20, None])
    def test_a_resume_begins_at_its_batch_and_reads_none_before(self, batches):
        def adapter():
            data = numbers(batches)
            return data, PyDatasetAdapter(data, ALONE, shuffle=True, seed=3)

        whole = numbers_of(adapter()[1], 60)
        assert numbers_of(adapter()[1], 15, start=45) == whole[45:]

    def test_one_without_end_keeps_its_order(self):
        adapter = PyDatasetAdapter(numbers(None), ALONE, shuffle=True)
        assert adapter.batches_per_pass is None
        assert numbers_of(adapter, 50) == list(range(50))

    @pytest.mark.parametrize(
        ("settings", "start", "read", "calls"),
        [
            ({}, 0, 9, ["begin", "end", "begin", "end", "begin"]),
            ({"epoch_batches": 3}, 0, 9, ["begin", "end"] * 4 + ["begin"]),  # 3, 1, 3, 1, and the first of 3
            ({}, 9, 1, ["begin", "end", "begin", "end", "begin"]),
        ],
    )
    def test_each_epoch_begins_and_ends_around_its_batches(self, settings, start, read, calls):
        data = numbers()
        batches = PyDatasetAdapter(data, ALONE, **settings)._training(start)
        for _ in range(read):
            next(batches)
        assert data.calls == calls

    @pytest.mark.parametrize("settings", [{"workers": 3}, {"workers": 2, "use_multiprocessing": True}])
    def test_threads_and_processes_make_the_same_batches_in_the_same_order(self, settings):
        data = numbers(7, max_queue_size=3, **settings)
        batches = PyDatasetAdapter(data, ALONE, shuffle=True, seed=5)._training(0)
        expected = PyDatasetAdapter(numbers(7), ALONE, shuffle=True, seed=5)._training(0)
        assert [next(batches)[1][0] for _ in range(10)] == [next(expected)[1][0] for _ in range(10)]
        assert data.calls == ["begin", "end", "begin"]
        batches.close()

    def test_an_evaluation_reads_each_batch_once_in_order(self):
        adapter = PyDatasetAdapter(numbers(), ALONE, shuffle=True)
        assert [int(y[0]) for _, y in adapter.evaluation_dataset()] == [0, 1, 2, 3]

    def test_an_evaluation_of_one_without_end_reads_as_many_batches_as_were_asked_for(self):
        adapter = PyDatasetAdapter(numbers(None), ALONE, most_batches=3)
        assert [int(y[0]) for _, y in adapter.evaluation_dataset()] == [0, 1, 2]

    def test_an_empty_one_is_refused(self):
        with pytest.raises(PreflightFailed, match="x, a Numbers, has no batches"):
            _ = PyDatasetAdapter(numbers(0), ALONE).batches_per_pass


def of_numbers(count=None):
    """A generator of batches of three examples with the number of their batch."""
    number = 0
    while count is None or number < count:
        yield np.full([3, 2], number, "float32"), np.full([3], number)
        number += 1


class Loader:
    """A torch.utils.data.DataLoader, as far as it is used."""

    def __init__(self, count):
        self.dataset = range(3 * count)
        self.count = count

    def __iter__(self):
        return of_numbers(self.count)

    def __len__(self):
        return self.count


class TestGenerator:
    def test_all_its_batches_are_read(self):
        adapter = GeneratorAdapter(of_numbers(30), ALONE)
        assert adapter.batches_per_pass is None
        assert numbers_of(adapter, 50) == list(range(30))

    def test_a_standby_that_has_read_a_few_batches_begins_again_at_the_first(self):
        adapter = GeneratorAdapter(of_numbers(), ALONE)
        assert numbers_of(adapter, 3) == [0, 1, 2]
        assert numbers_of(adapter, 2 * KEPT) == list(range(2 * KEPT))

    def test_one_that_was_read_cannot_be_read_again(self):
        adapter = GeneratorAdapter(of_numbers(), ALONE)
        numbers_of(adapter, 2 * KEPT)
        import tensorflow as tf

        with pytest.raises(tf.errors.OpError, match="x, a generator, was read already and cannot be read again"):
            numbers_of(adapter, 1)

    def test_a_data_loader_is_read_pass_after_pass(self):
        adapter = GeneratorAdapter(Loader(4), ALONE)
        assert adapter.batches_per_pass == 4
        assert numbers_of(adapter, 10) == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]

    def test_a_data_loader_is_known_without_pytorch(self):
        kind = type("DataLoader", (), {"__module__": "torch.utils.data.dataloader"})
        assert is_generator(kind())
        assert is_generator(type("Mine", (kind,), {})())
        assert not is_generator(Loader(1))

    def test_each_evaluation_of_a_generator_begins_at_its_first_batch(self):
        found = GeneratorAdapter(of_numbers(), ALONE, most_batches=3).evaluation_dataset()
        for _ in range(2):
            assert [int(y[0]) for _, y in found] == [0, 1, 2]

    def test_processes_see_whether_their_batches_are_the_same(self):
        assert GeneratorAdapter(of_numbers(), ALONE).fingerprint == GeneratorAdapter(of_numbers(), ALONE).fingerprint
        other = ((x + 1, y) for x, y in of_numbers())
        assert GeneratorAdapter(of_numbers(), ALONE).fingerprint != GeneratorAdapter(other, ALONE).fingerprint

    def test_an_empty_one_is_refused(self):
        with pytest.raises(PreflightFailed, match="x, a generator, gives no batch"):
            GeneratorAdapter(of_numbers(0), ALONE)


@pytest.mark.parametrize(
    "make", [lambda: PyDatasetAdapter(numbers(), ALONE), lambda: GeneratorAdapter(of_numbers(4), ALONE)]
)
def test_the_processes_divide_each_batch_as_evenly_as_possible(make):
    parts = []
    for rank in range(2):
        adapter = make()
        adapter._sharding = Sharding(2, rank, 2)
        parts.append(list(adapter.dataset(DataPosition()).take(4)))
    for number, shares in enumerate(zip(*parts, strict=True)):
        assert all(isinstance(share, Share) for share in shares)
        assert [int(share.examples) for share in shares] == [2, 1]
        assert [int(share.total) for share in shares] == [3, 3]
        assert np.concatenate([share.batch[1] for share in shares]).tolist() == [number] * 3


class TestBatch:
    ARRAY = np.zeros([2, 3])

    @pytest.mark.parametrize(
        ("given", "parts"),
        [
            (ARRAY, 1),
            ([ARRAY, ARRAY], 2),
            ((ARRAY, ARRAY, None), 2),
            ((ARRAY, ARRAY, np.ones(2)), 3),
            ((ARRAY, None, None), 1),
        ],
    )
    def test_it_is_a_tuple_of_up_to_three_parts(self, given, parts):
        batch = to_batch(given)
        assert isinstance(batch, tuple)
        assert len(batch) == parts

    def test_a_dict_stays_a_dict(self):
        assert to_batch({"a": self.ARRAY})["a"].shape == (2, 3)

    @pytest.mark.parametrize("given", [(), (ARRAY,) * 4, (ARRAY, None, np.ones(2)), 3.0, "text"])
    def test_what_is_no_batch_is_refused(self, given):
        with pytest.raises(PreflightFailed):
            to_batch(given)

    def test_tensors_of_pytorch_are_taken_from_their_device(self):
        class Tensor:
            __module__ = "torch"

            def detach(self):
                return self

            def cpu(self):
                return np.ones([2, 1], "float32")

        assert to_batch((Tensor(), [Tensor()]))[1][0].tolist() == [[1.0], [1.0]]

    def test_an_axis_whose_length_differs_may_have_any(self):
        spec = spec_of(
            [to_batch((np.zeros([4, 7, 2]), np.zeros([4, 1]))), to_batch((np.zeros([3, 9, 2]), np.zeros([3, 1])))]
        )
        assert [each.shape.as_list() for each in spec] == [[None, None, 2], [None, 1]]

    def test_sparse_and_ragged_batches_are_read(self):
        import tensorflow as tf
        from scipy import sparse  # type: ignore[import-untyped]

        def batches():
            for _ in range(2):
                yield sparse.eye(3, format="csr"), tf.ragged.constant([[1], [2, 3], []])

        (x, y), _ = GeneratorAdapter(batches(), ALONE).dataset(DataPosition())
        assert tf.sparse.to_dense(x).numpy().tolist() == np.eye(3).tolist()
        assert y.to_list() == [[1], [2, 3], []]

    def test_batches_of_different_structures_are_refused(self):
        with pytest.raises(PreflightFailed, match="the first 2 batches of x differ in their structure"):
            spec_of([to_batch((np.zeros([2, 3]), np.zeros(2))), to_batch((np.zeros([2, 3]),))])
