"""Reads one batch of an endless pipeline and waits, then drops the iterator and waits. Tells each time how many bytes
Arrow holds, and how many threads read. Arguments: a Parquet file, examples of the shuffle's window.
"""

import gc
import json
import sys
import threading
import time

import pyarrow as pa

from dtj import data
from dtj_trainer.data.sharding import Shard


def settled() -> dict[str, int]:
    """Once nothing has changed for a second."""
    seen: dict[str, int] = {}
    since = time.monotonic()
    while time.monotonic() - since < 1:
        readers = sum(thread.name.startswith("dtj-data") for thread in threading.enumerate())
        now = {"bytes": pa.total_allocated_bytes(), "readers": readers}
        if now != seen:
            seen, since = now, time.monotonic()
        time.sleep(0.05)
    return seen


batches = iter(data.Pipeline(data.parquet(sys.argv[1]), shuffle=int(sys.argv[2])).training(Shard(1, 0, 1024, 1024), 0))
next(batches)
reading = settled() | {"most": pa.default_memory_pool().max_memory()}
del batches
gc.collect()
sys.stdout.write(json.dumps({"reading": reading, "dropped": settled()}) + "\n")
