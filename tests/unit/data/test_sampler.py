"""Who reads which example: whatever happens to the number of processes, each example of a pass is read once."""

from collections import Counter
from itertools import islice

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dtj_trainer.data.position import ReadSpan, read_on
from dtj_trainer.data.sampler import Order, even_share, merge_windows, sample_positions


def examples(order, history, workers, index, count, *, repeat=True):
    """(pass, position) of the next `count` examples of one process."""
    found = (
        (n, int(p)) for n, window in sample_positions(order, history, workers, index, repeat=repeat) for p in window
    )
    return list(islice(found, count))


def read_all(order, phases):
    """Everything that was read when (workers, examples a worker) follow one another, and the history after it."""
    seen: list[tuple[int, int]] = []
    history: tuple[ReadSpan, ...] = ()
    for workers, each in phases:
        for index in range(workers):
            seen += examples(order, history, workers, index, each)
        history = read_on(history, workers, workers * each)
    return seen, history


PHASES = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 60)), max_size=5)
ORDERS = st.builds(Order, size=st.integers(1, 80), window=st.sampled_from([0, 1, 7, 100]), seed=st.integers(0, 9))


@settings(deadline=None)
@given(ORDERS, PHASES)
def test_each_example_of_a_pass_is_read_once_however_often_the_number_of_workers_changes(order, phases):
    seen, history = read_all(order, phases)
    finish = sum(workers * each for workers, each in phases)
    seen += examples(order, history, 1, 0, -finish % order.size)
    passes = len(seen) // order.size
    assert Counter(seen) == {(n, p): 1 for n in range(passes) for p in range(order.size)}


@settings(deadline=None)
@given(ORDERS, st.integers(1, 4), st.integers(0, 150), st.integers(0, 50))
def test_a_resumed_process_reads_what_it_would_have_read(order, workers, each, more):
    for index in range(workers):
        undisturbed = examples(order, (), workers, index, each + more)
        resumed = examples(order, (ReadSpan(workers, workers * each),), workers, index, more)
        assert resumed == undisturbed[each:]


@settings(deadline=None)
@given(ORDERS, PHASES, st.integers(1, 5), st.integers(0, 40), st.integers(0, 40))
def test_a_resume_after_changes_reads_what_would_have_been_read(order, phases, workers, each, more):
    _, history = read_all(order, phases)
    later = read_on(history, workers, workers * each)
    for index in range(workers):
        undisturbed = examples(order, history, workers, index, each + more)
        assert examples(order, later, workers, index, more) == undisturbed[each:]


def test_a_process_that_is_resumed_with_its_part_of_a_pass_read_goes_on_with_the_next_pass():
    order, history = Order(101, 30, 0), [ReadSpan(2, 100)]
    same = list(islice(sample_positions(order, history, 2, 0, repeat=True), 2))
    assert [(number, len(positions)) for number, positions in same] == [(1, 30), (1, 21)]
    more = list(islice(sample_positions(order, history, 3, 0, repeat=True), 2))
    assert [(number, len(positions)) for number, positions in more] == [(1, 30), (1, 4)]


@settings(deadline=None)
@given(ORDERS, st.integers(1, 5))
def test_without_repeat_one_pass_is_read(order, workers):
    seen = [each for index in range(workers) for each in examples(order, (), workers, index, 1000, repeat=False)]
    assert Counter(seen) == {(0, p): 1 for p in range(order.size)}


def test_no_process_is_ever_more_than_one_example_ahead_of_another():
    order = Order(10, 0, 0)
    passes = [[n for n, _ in examples(order, (), 3, index, 1000)] for index in range(3)]
    for number in range(100):
        ends = [sum(n <= number for n in each) for each in passes]
        assert max(ends) - min(ends) <= 1


def test_a_process_reads_a_contiguous_part_so_that_files_are_not_shared():
    order = Order(100, 5, 1)
    for index in range(4):
        own = {p for _, p in examples(order, (), 4, index, 25)}
        assert own == set(range(25 * index, 25 * index + 25))


def test_each_pass_and_each_seed_has_an_order_of_its_own():
    first, second = (examples(Order(50, 50, 1), (), 1, 0, 100)[n : n + 50] for n in (0, 50))
    other = examples(Order(50, 50, 2), (), 1, 0, 50)
    assert len({tuple(p for _, p in each) for each in (first, second, other)}) == 3


def test_validation_parts_are_everything_once():
    parts = [p for index in range(3) for p in even_share(11, 3, index)]
    assert parts == list(range(11))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 30))), st.integers(1, 20), st.integers(0, 20))
def test_gathered_positions_keep_order_and_passes(windows, least, more):
    windows = [(number, np.arange(length)) for number, length in sorted(windows, key=lambda each: each[0])]
    found = list(merge_windows(iter(windows), least, least + more))
    assert [(n, p) for n, each in found for p in each] == [(n, p) for n, window in windows for p in window]
    assert all(len(each) <= least + more for _, each in found)
