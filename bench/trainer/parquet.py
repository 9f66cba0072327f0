"""Parquet → batches: examples a second through dtj.data.parquet against pyarrow's own scan of the same columns.

All read the same local files from the page cache, alternating in one process, each in the middle of reading them
without end: a pass that is not timed goes before every PASSES that are, so that what is read ahead counts for nobody.
There are more row groups than are ever read ahead, so that none is kept from one shuffled pass to the next.
Each figure is the median of ROUNDS, and "pyarrow" is the faster of its two readers: the dataset scanner, and row group
by row group. `*_cpu_*` are the same by processor time, which other programs on the machine disturb less. A row is that
of a click log such as Criteo's: a label, 13 numbers, 26 categories as integers, and 3 columns that are not read.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf
from pyarrow import dataset, parquet

from dtj import data
from dtj_trainer.data.sharding import Shard

ROWS, GROUP, BATCH, PASSES, ROUNDS = 2_000_000, 200_000, 4096, 2, 5
NUMBERS, KINDS = 13, 26
STEPS = 61
"""Batches that are taken in one call, as the training loop takes several."""
READ = [*(f"number{n}" for n in range(NUMBERS)), *(f"kind{n}" for n in range(KINDS))]


def write(directory: Path, rows: int) -> None:
    """Write files of half a million rows."""
    rng = np.random.default_rng(0)
    for number in range(0, rows, 500_000):
        size = min(500_000, rows - number)
        columns = {"label": rng.integers(0, 2, size).astype("int32")}
        columns |= {f"number{n}": np.log1p(rng.poisson(20, size)).astype("float32") for n in range(NUMBERS)}
        columns |= {f"kind{n}": (rng.zipf(1.5, size) % 100_000).astype("int32") for n in range(KINDS)}
        columns |= {f"unread{n}": rng.normal(size=size) for n in range(3)}
        parquet.write_table(pa.table(columns), directory / f"part-{number:09}.parquet", row_group_size=GROUP)


def scan(directory: Path) -> Iterator[int]:
    """Scan with pyarrow's own scanner, its threads and its read-ahead."""
    while True:
        scanner = dataset.dataset(directory, format="parquet").scanner(columns=["label", *READ])
        yield from (batch.num_rows for batch in scanner.to_batches())


def groups(directory: Path) -> Iterator[int]:
    """Read pyarrow's row groups one after the other, columns decoded in parallel."""
    files = [parquet.ParquetFile(path) for path in sorted(directory.iterdir())]
    while True:
        for file in files:
            for number in range(file.num_row_groups):
                yield file.read_row_group(number, ["label", *READ]).num_rows


def batches(directory: Path, shuffle: int) -> Iterator[int]:
    """Read a Pipeline's batches, as a training step gets them."""
    source = data.parquet(directory, columns=READ, label="label")
    read = iter(data.Pipeline(source, shuffle=shuffle).training(Shard(1, 0, BATCH, BATCH), 0))

    @tf.function  # type: ignore[untyped-decorator]
    def take(read: Any) -> Any:
        rows = tf.constant(0, tf.int64)
        for _ in tf.range(STEPS):
            rows += tf.size(next(read)[1], tf.int64)
        return rows

    while True:
        yield int(take(read))


@dataclass(frozen=True)
class Rates:
    """Rows a second, and rows a second of processor time."""

    wall: float
    cpu: float


def rates(read: Iterator[int], rows: int) -> Rates:
    """Measure PASSES passes over `rows`, after one that is not counted."""
    advance(read, rows)
    wall, cpu = time.perf_counter(), time.process_time()
    done = advance(read, PASSES * rows)
    return Rates(done / (time.perf_counter() - wall), done / (time.process_time() - cpu))


def advance(read: Iterator[int], rows: int) -> int:
    """Read at least `rows` rows; returns how many."""
    done = 0
    while done < rows:
        done += next(read)
    return done


def measure(rows: int = ROWS) -> dict[str, float]:
    """Measure rows a second of each reader, and their ratio to pyarrow's."""
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        write(directory, rows)
        readers = {
            "scanner": scan(directory),
            "groups": groups(directory),
            "plain": batches(directory, 0),
            "shuffled": batches(directory, 10_000),
        }
        taken: dict[str, list[Rates]] = {name: [] for name in readers}
        for _ in range(ROUNDS):
            for name, read in readers.items():
                taken[name].append(rates(read, rows))
    wall = {name: statistics.median(each.wall for each in found) for name, found in taken.items()}
    cpu = {name: statistics.median(each.cpu for each in found) for name, found in taken.items()}
    pyarrow, pyarrow_cpu = (max(each["scanner"], each["groups"]) for each in (wall, cpu))
    return {
        "parquet_pyarrow_rows_per_second": pyarrow,
        "parquet_rows_per_second": wall["plain"],
        "parquet_shuffled_rows_per_second": wall["shuffled"],
        "parquet_ratio_pyarrow": wall["plain"] / pyarrow,
        "parquet_shuffled_ratio_pyarrow": wall["shuffled"] / pyarrow,
        "parquet_cpu_ratio_pyarrow": cpu["plain"] / pyarrow_cpu,
        "parquet_shuffled_cpu_ratio_pyarrow": cpu["shuffled"] / pyarrow_cpu,
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=ROWS)
    found = measure(options.parse_args().rows)
    print(json.dumps({"cores": len(os.sched_getaffinity(0)), **found}, indent=1))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
