"""Garbage collection and the recursion limit."""

import asyncio
import gc
import sys
from collections.abc import Iterator

import pytest

from dtj_operator.app import interpreter
from dtj_operator.kube.serializer import MAX_DEPTH, dumps, loads


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
    collecting = asyncio.create_task(interpreter.collect_when(known))
    await asyncio.sleep(0.01)
    assert not gc.isenabled()
    known.set()
    await collecting
    assert gc.isenabled()


async def test_garbage_is_collected_when_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "LONGEST_START_SECONDS", 0.01)
    await interpreter.collect_when(asyncio.Event())
    assert gc.isenabled()


def test_the_deepest_json_does_not_exceed_the_recursion_limit() -> None:
    before = sys.getrecursionlimit()
    interpreter.prepare()
    try:
        text = '{"a":' * (MAX_DEPTH - 1) + "{}" + "}" * (MAX_DEPTH - 1)
        assert dumps(loads(text.encode())).replace(b" ", b"") == text.encode()
    finally:
        sys.setrecursionlimit(before)
