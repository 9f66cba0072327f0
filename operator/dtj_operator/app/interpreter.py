"""Python's own limits: when garbage is collected, and how deeply functions may call each other."""

from __future__ import annotations

import asyncio
import gc
import sys
from contextlib import suppress

from dtj_operator.kube.serializer import MAX_DEPTH

GC_THRESHOLD = (5_000, 10, 10)
"""Objects, and collections of the younger generations: requests come and go in tens of thousands, and looking for
cycles among them every 700 objects took 7 % of the processor time."""
LONGEST_START_SECONDS = 20.0
"""Without any collection."""
CALLS = 2_000
"""Calls within each other, beside the levels of the JSON that is read."""


def prepare() -> None:
    """Put off garbage collection, and allow for the deepest JSON. Call it before there is anything to collect.

    Python's own limit of 1,000 would let one job that nests more deeply end the operator of all others.
    """
    gc.disable()
    sys.setrecursionlimit(MAX_DEPTH + CALLS)


async def collect_when(ready: asyncio.Event) -> None:
    """Collect garbage once everything is loaded and listed.

    What is there by then mostly stays, and looking through it again and again takes a tenth of the start.
    """
    with suppress(TimeoutError):
        await asyncio.wait_for(ready.wait(), LONGEST_START_SECONDS)
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLD)
    gc.enable()
