"""Batches put together from chunks of any length, without copying where they lie in one."""

import numpy as np

from dtj_trainer.data.assembly import assembled, at_once


def chunks(*lengths):
    """`a` counts examples; `v` has three numbers for each."""
    start = 0
    for length in lengths:
        numbers = np.arange(start, start + length)
        yield {"a": numbers, "v": np.stack([numbers / 2] * 3, 1)}
        start += length


def test_batches_reach_over_chunks_and_the_last_is_smaller():
    made = list(assembled(chunks(5, 1, 17, 4), 4, 2, drop_remainder=False))
    assert [(numbers.shape, vectors.shape) for numbers, vectors in made] == [((2, 4), (2, 4, 3))] * 3 + [
        ((1, 3), (1, 3, 3))
    ]
    assert np.concatenate([numbers.ravel() for numbers, _ in made]).tolist() == list(range(27))
    assert np.concatenate([v.reshape(-1, 3)[:, 2] for _, v in made]).tolist() == [n / 2 for n in range(27)]


def test_a_batch_alone_has_no_axis_before_it():
    made = [numbers.tolist() for numbers, _ in assembled(chunks(5, 1), 4, 1, drop_remainder=False)]
    assert made == [[0, 1, 2, 3], [4, 5]]


def test_without_a_remainder_only_whole_batches_come():
    made = list(assembled(chunks(5, 6), 4, 2, drop_remainder=True))
    assert [numbers.shape for numbers, _ in made] == [(2, 4)]
    assert list(assembled(chunks(3), 4, 2, drop_remainder=True)) == []


def test_a_batch_that_lies_in_one_chunk_is_that_part_of_it():
    (chunk,) = chunks(8)
    for numbers, vectors in assembled([chunk], 4, 1, drop_remainder=True):
        assert np.shares_memory(numbers, chunk["a"])
        assert np.shares_memory(vectors, chunk["v"])


def test_small_batches_go_together_up_to_a_number_of_bytes():
    assert [at_once(batch, 100) for batch in (1, 32, 4096, 100_000)] == [65_536, 2048, 16, 1]
    assert at_once(32, 1 << 20) == 1
