from __future__ import annotations

import asyncio

import pytest

from dtj_operator.cache.namespaced_name import NamespacedName
from dtj_operator.controller.metrics import Metrics
from dtj_operator.controller.workqueue import WorkQueue

A, B = NamespacedName("default", "a"), NamespacedName("default", "b")


async def nothing_queued(queue: WorkQueue) -> bool:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 0.02)
    return True


async def test_a_key_added_twice_is_handed_out_once():
    queue = WorkQueue(Metrics())
    queue.add(A)
    queue.add(A)
    assert await queue.get() == A
    queue.done(A)
    assert await nothing_queued(queue)


async def test_a_key_added_while_it_is_worked_on_comes_back_after_and_not_before():
    queue = WorkQueue(Metrics())
    queue.add(A)
    await queue.get()
    queue.add(A)
    queue.add(B)
    assert await queue.get() == B
    assert await nothing_queued(queue)
    queue.done(A)
    assert await queue.get() == A


async def test_of_several_delays_the_earliest_counts():
    queue = WorkQueue(Metrics())
    loop = asyncio.get_running_loop()
    began = loop.time()
    queue.add_after(A, 5.0)
    queue.add_after(A, 0.01)
    queue.add_after(A, 3.0)
    assert await asyncio.wait_for(queue.get(), 1.0) == A
    assert loop.time() - began < 0.5


async def test_getting_a_key_drops_its_delay():
    queue = WorkQueue(Metrics())
    queue.add_after(A, 0.01)
    queue.add(A)
    await queue.get()
    queue.done(A)
    assert await nothing_queued(queue)


async def test_failures_wait_ever_longer_and_success_forgets_them():
    queue = WorkQueue(Metrics())
    queue.add(A)
    waits = []
    for _ in range(3):
        await queue.get()
        waits.append(queue.add_rate_limited(A))
    assert waits[0] <= 0.05
    assert 0.1 <= waits[2] <= 0.2
    await queue.get()
    queue.done(A)
    queue.add(A)
    await queue.get()
    assert queue.add_rate_limited(A) <= 0.05


async def test_a_wait_that_the_server_asks_for_is_kept():
    queue = WorkQueue(Metrics())
    queue.add(A)
    await queue.get()
    assert queue.add_rate_limited(A, after=7.0) == 7.0


async def test_a_time_that_was_ordered_is_kept_through_a_failure_whose_delay_is_longer():
    queue = WorkQueue(Metrics())
    queue.add(A)
    await queue.get()
    queue.add_after(A, 0.01)
    queue.add_rate_limited(A, after=7.0)
    assert await asyncio.wait_for(queue.get(), 1.0) == A


async def test_a_time_that_came_while_the_key_was_worked_on_is_kept_through_a_failure():
    queue = WorkQueue(Metrics())
    queue.add(A)
    await queue.get()
    queue.add_after(A, 0.0)
    await asyncio.sleep(0.01)
    queue.add_rate_limited(A, after=7.0)
    assert await asyncio.wait_for(queue.get(), 1.0) == A
    queue.add_rate_limited(A, after=7.0)
    assert await nothing_queued(queue)


async def test_a_queue_that_is_shut_down_hands_out_nothing_more():
    queue = WorkQueue(Metrics())
    queue.add(A)
    queue.shut_down()
    assert await nothing_queued(queue)
