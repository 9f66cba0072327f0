"""Tasks that run until the process ends."""

from __future__ import annotations

import asyncio

from dtj_operator.app.runnables import Runnables


async def forever() -> None:
    await asyncio.Event().wait()


async def test_a_task_that_fails_and_one_that_ends_are_reported_and_one_that_is_stopped_is_not() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    async def end() -> None:
        pass

    failures: list[Exception] = []
    runnables = Runnables(failures.append)
    for work, name in ((fail(), "fails"), (end(), "ends"), (forever(), "stopped"), (forever(), "left")):
        runnables.start(work, name)
    await asyncio.sleep(0.01)
    await runnables.stop("stopped", 1.0)
    await runnables.stop_all()
    assert [str(failure) for failure in failures] == ["broken", "ends ended by itself"]


async def test_a_task_that_is_stopped_may_finish_what_it_has_begun_but_not_take_forever() -> None:
    finished: list[str] = []

    async def finish(seconds: float) -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(seconds)
            finished.append("done")

    for seconds, expected in ((0.01, ["done"]), (10.0, ["done"])):
        runnables = Runnables(lambda _failure: None)
        runnables.start(finish(seconds), "controller")
        await asyncio.sleep(0)
        await runnables.stop("controller", 0.1)
        assert finished == expected
        await runnables.stop_all()
