"""What the command does around the operator."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from dtj_operator.app import command


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
    collecting = asyncio.create_task(command._collect_after(known))
    await asyncio.sleep(0.01)
    assert not gc.isenabled()
    known.set()
    await collecting
    assert gc.isenabled()


async def test_garbage_is_collected_when_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "LONGEST_START_SECONDS", 0.01)
    await command._collect_after(asyncio.Event())
    assert gc.isenabled()
