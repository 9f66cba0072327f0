"""What the command does around the operator."""

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from dtj_operator.app import cli


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    threshold = gc.get_threshold()
    gc.disable()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)
    gc.enable()


async def test_garbage_is_collected_once_everything_is_known() -> None:
    known = asyncio.Event()
    collecting = asyncio.create_task(cli._collect_after(known))
    await asyncio.sleep(0.01)
    assert not gc.isenabled()
    known.set()
    await collecting
    assert gc.isenabled()


async def test_garbage_is_collected_when_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "LONGEST_START_SECONDS", 0.01)
    await cli._collect_after(asyncio.Event())
    assert gc.isenabled()


@pytest.fixture
def prepared() -> Iterator[None]:
    interval, depth, stack = sys.getswitchinterval(), sys.getrecursionlimit(), threading.stack_size()
    cli._prepare_python()
    yield
    sys.setswitchinterval(interval)
    sys.setrecursionlimit(depth)
    threading.stack_size(stack)


@pytest.fixture
def computing() -> Iterator[None]:
    """Another thread that never waits, as kopf's while it reads."""
    end = threading.Event()

    def compute() -> None:
        while not end.is_set():
            pass

    thread = threading.Thread(target=compute)
    thread.start()
    yield
    end.set()
    thread.join()


@pytest.mark.usefixtures("prepared", "computing")
async def test_a_thread_that_computes_does_not_hold_up_the_next_request() -> None:
    late = []
    for _ in range(40):
        due = time.perf_counter() + 0.001
        await asyncio.sleep(0.001)
        late.append(time.perf_counter() - due)
    # Few of them: the machine may be busy with more than this.
    assert sorted(late)[4] < 0.003
