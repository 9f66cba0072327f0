"""Reads past the batches that were trained before a resume, where the data cannot begin at a position."""

import time
from collections.abc import Callable

from dtj_trainer.context import TrainContext
from dtj_trainer.errors import Preempted

CALL_SECONDS = 1.0
"""About how long one call reads; each is reported, so that none of it counts as a stall."""
TOLD_SECONDS = 10.0
"""Seconds between two lines for people."""


def read_past(read: Callable[[int], None], batches: int, context: TrainContext) -> None:
    """Call `read(n)` until `batches` batches are read, and report progress.

    Raises:
        Preempted: asked to leave; the state is saved, else there would be nothing to read past.
    """
    done, count, told = 0, 1, time.monotonic()
    while done < batches:
        context.reporter.phase("skip")
        if context.commands.preempted.is_set():
            raise Preempted(f"asked to leave while reading past {batches} batches that are trained already")
        count = min(count, batches - done)
        began = time.monotonic()
        read(count)
        done += count
        now = time.monotonic()
        count = max(1, min(2 * count, int(count * CALL_SECONDS / max(now - began, 1e-9))))
        if context.is_chief and (now - told >= TOLD_SECONDS or done == batches):
            told = now
            print(  # noqa: T201 - for people
                f"dtj: read past {done} of {batches} batches that are trained already; a dtj.data.Pipeline jumps there",
                flush=True,
            )
