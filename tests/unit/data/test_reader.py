"""Batches put together from chunks of any length, without copying where they lie in one."""

import numpy as np

from dtj_trainer.data.reader import assemble_batches


def chunks(*lengths):
    """`a` counts examples; `v` has three numbers for each."""
    start = 0
    for length in lengths:
        numbers = np.arange(start, start + length)
        yield {"a": numbers, "v": np.stack([numbers / 2] * 3, 1)}
        start += length


def test_batches_reach_over_chunks_and_the_last_is_smaller():
    made = list(assemble_batches(chunks(5, 1, 17, 4), 4, drop_remainder=False))
    assert [numbers.shape for numbers, _ in made] == [(1, 4), (1, 4), (3, 4), (1, 4), (1, 3)]
    assert [vectors.shape for _, vectors in made] == [(*numbers.shape, 3) for numbers, _ in made]
    assert np.concatenate([numbers.ravel() for numbers, _ in made]).tolist() == list(range(27))
    assert np.concatenate([v.reshape(-1, 3)[:, 2] for _, v in made]).tolist() == [n / 2 for n in range(27)]


def test_a_batch_may_be_longer_than_chunks():
    made = [numbers.tolist() for numbers, _ in assemble_batches(chunks(2, 1, 2, 4), 7, drop_remainder=False)]
    assert made == [[[0, 1, 2, 3, 4, 5, 6]], [[7, 8]]]


def test_without_a_remainder_only_whole_batches_come():
    made = list(assemble_batches(chunks(5, 6), 4, drop_remainder=True))
    assert np.concatenate([numbers for numbers, _ in made]).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert list(assemble_batches(chunks(3), 4, drop_remainder=True)) == []


def test_batches_that_lie_in_one_chunk_are_that_part_of_it():
    first, chunk = chunks(3, 13)
    _, (numbers, vectors) = assemble_batches([first, chunk], 4, drop_remainder=True)
    assert numbers.shape == (3, 4)
    assert np.shares_memory(numbers, chunk["a"])
    assert np.shares_memory(vectors, chunk["v"])
