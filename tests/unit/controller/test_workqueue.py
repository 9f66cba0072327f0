from __future__ import annotations

import asyncio

import pytest

from dtj_operator.cache.namespaced_name import NamespacedName
from dtj_operator.controller.metrics import Metrics
from dtj_operator.controller.workqueue import Queue

A, B = NamespacedName("default", "a"), NamespacedName("default", "b")


async def nothing_in_line(queue: Queue) -> bool:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.take(), 0.02)
    return True


async def test_a_key_added_twice_is_handed_out_once():
    queue = Queue(Metrics())
    queue.add(A)
    queue.add(A)
    assert await queue.take() == A
    queue.done(A)
    assert await nothing_in_line(queue)


async def test_a_key_added_while_it_is_worked_on_comes_back_after_and_not_before():
    queue = Queue(Metrics())
    queue.add(A)
    await queue.take()
    queue.add(A)
    queue.add(B)
    assert await queue.take() == B
    assert await nothing_in_line(queue)
    queue.done(A)
    assert await queue.take() == A


async def test_of_several_delays_the_earliest_counts():
    queue = Queue(Metrics())
    loop = asyncio.get_running_loop()
    began = loop.time()
    queue.add_after(A, 5.0)
    queue.add_after(A, 0.01)
    queue.add_after(A, 3.0)
    assert await asyncio.wait_for(queue.take(), 1.0) == A
    assert loop.time() - began < 0.5


async def test_taking_a_key_drops_its_delay():
    queue = Queue(Metrics())
    queue.add_after(A, 0.01)
    queue.add(A)
    await queue.take()
    queue.done(A)
    assert await nothing_in_line(queue)


async def test_failures_wait_ever_longer_and_success_forgets_them():
    queue = Queue(Metrics())
    queue.add(A)
    waits = []
    for _ in range(3):
        await queue.take()
        waits.append(queue.failed(A))
    assert waits[0] <= 0.05
    assert 0.1 <= waits[2] <= 0.2
    await queue.take()
    queue.done(A)
    queue.add(A)
    await queue.take()
    assert queue.failed(A) <= 0.05


async def test_a_wait_that_the_server_asks_for_is_kept():
    queue = Queue(Metrics())
    queue.add(A)
    await queue.take()
    assert queue.failed(A, after=7.0) == 7.0


async def test_a_time_that_was_ordered_is_kept_through_a_failure_whose_delay_is_longer():
    queue = Queue(Metrics())
    queue.add(A)
    await queue.take()
    queue.add_after(A, 0.01)
    queue.failed(A, after=7.0)
    assert await asyncio.wait_for(queue.take(), 1.0) == A


async def test_a_time_that_came_while_the_key_was_worked_on_is_kept_through_a_failure():
    queue = Queue(Metrics())
    queue.add(A)
    await queue.take()
    queue.add_after(A, 0.0)
    await asyncio.sleep(0.01)
    queue.failed(A, after=7.0)
    assert await asyncio.wait_for(queue.take(), 1.0) == A
    queue.failed(A, after=7.0)
    assert await nothing_in_line(queue)


async def test_a_closed_queue_hands_out_nothing_more():
    queue = Queue(Metrics())
    queue.add(A)
    queue.close()
    assert await nothing_in_line(queue)
