"""Batches put together from chunks of any length, in memory that is used again only when nobody has it."""

from types import SimpleNamespace

import numpy as np

from dtj_trainer.data.assembly import ALIGNED, Group, assembled, at_once


def group(names, kind, shape=()):
    return Group(names, SimpleNamespace(as_numpy_dtype=kind), shape)


def chunks(*lengths):
    """`a` and `b` count examples; `v` has three numbers for each."""
    start = 0
    for length in lengths:
        numbers = np.arange(start, start + length)
        yield {"a": numbers, "b": -numbers, "v": np.stack([numbers / 2] * 3, 1)}
        start += length


GROUPS = [group(("a", "b"), np.int64), group(("v",), np.float64, (3,))]


def test_batches_reach_over_chunks_and_the_last_is_smaller():
    made = list(assembled(chunks(5, 1, 17, 4), GROUPS, 4, 2, drop_remainder=False))
    assert [numbers.shape for numbers, _ in made] == [(2, 2, 4)] * 3 + [(1, 2, 3)]
    assert [vectors.shape for _, vectors in made] == [(2, 1, 4, 3)] * 3 + [(1, 1, 3, 3)]
    assert np.concatenate([numbers[:, 0].ravel() for numbers, _ in made]).tolist() == list(range(27))
    assert np.concatenate([numbers[:, 1].ravel() for numbers, _ in made]).tolist() == [-n for n in range(27)]
    assert np.concatenate([v.reshape(-1, 3)[:, 2] for _, v in made]).tolist() == [n / 2 for n in range(27)]


def test_without_a_remainder_only_whole_batches_come():
    made = list(assembled(chunks(5, 6), GROUPS, 4, 2, drop_remainder=True))
    assert [numbers.shape for numbers, _ in made] == [(2, 2, 4)]
    assert list(assembled(chunks(3), GROUPS, 4, 2, drop_remainder=True)) == []


def test_memory_is_used_again_only_when_nobody_has_the_batch():
    made = assembled(chunks(*[4] * 6), GROUPS[:1], 4, 1, drop_remainder=True)
    (held,) = next(made)
    (_,) = next(made)
    seen = {held.ctypes.data}
    for (batch,) in made:
        seen.add(batch.ctypes.data)
        assert batch.ctypes.data % ALIGNED == 0
    assert held[0, 0].tolist() == [0, 1, 2, 3]
    assert len(seen) <= 3


def test_small_batches_go_together_up_to_a_number_of_bytes():
    assert [at_once(batch, 100) for batch in (1, 32, 4096, 10_000)] == [4096, 128, 1, 1]
    assert at_once(32, 1 << 20) == 1
