"""Parquet → batches: examples a second through dtj.data.parquet against pyarrow's own scan of the same columns.

All read the same local files from the page cache, PASSES times over, alternating in one process; each figure is the
median of ROUNDS, and "pyarrow" is the faster of its two ways: the dataset scanner, and row group by row group. Building
the tf.data graph counts. `*_cpu_*` are the same by processor time, which other programs on the machine disturb less.
A row is that of a click log such as Criteo's: a label, 13 numbers, 26 kinds as integers, and 3 columns nobody reads.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import tensorflow as tf
from pyarrow import dataset, parquet

from dtj_trainer import data
from dtj_trainer.data.share import Share

ROWS, GROUP, BATCH, PASSES, ROUNDS = 1_000_000, 200_000, 4096, 4, 5
NUMBERS, KINDS = 13, 26
READ = [*(f"number{n}" for n in range(NUMBERS)), *(f"kind{n}" for n in range(KINDS))]


def write(directory: Path, rows: int) -> None:
    """Files of half a million rows."""
    rng = np.random.default_rng(0)
    for number in range(0, rows, 500_000):
        size = min(500_000, rows - number)
        columns = {"label": rng.integers(0, 2, size).astype("int32")}
        columns |= {f"number{n}": np.log1p(rng.poisson(20, size)).astype("float32") for n in range(NUMBERS)}
        columns |= {f"kind{n}": (rng.zipf(1.5, size) % 100_000).astype("int32") for n in range(KINDS)}
        columns |= {f"unread{n}": rng.normal(size=size) for n in range(3)}
        parquet.write_table(pa.table(columns), directory / f"part-{number:09}.parquet", row_group_size=GROUP)


def scan(directory: Path) -> int:
    """One pass of pyarrow's own scan, with its threads and its read-ahead."""
    scanner = dataset.dataset(directory, format="parquet").scanner(columns=["label", *READ])
    return sum(batch.num_rows for batch in scanner.to_batches())


def groups(directory: Path) -> int:
    """One pass over pyarrow's row groups, one after the other, columns decoded in parallel."""
    files = [parquet.ParquetFile(path) for path in sorted(directory.iterdir())]
    tables = (file.read_row_group(n, ["label", *READ]) for file in files for n in range(file.num_row_groups))
    return sum(table.num_rows for table in tables)


def batches(directory: Path, shuffle: int) -> int:
    """All passes through a Pipeline, to batches as a training step gets them."""
    source = data.parquet(directory, columns=READ, label="label")
    pipeline = data.Pipeline(source, shuffle=shuffle)
    share = Share(1, 0, BATCH, BATCH)
    steps = PASSES * source.size // BATCH
    read = pipeline.training(share, 0).take(steps)
    return int(read.reduce(np.int64(0), lambda rows, element: rows + tf.size(element[1], tf.int64)))


@dataclass(frozen=True)
class Rates:
    """Rows a second, and rows a second of processor time."""

    wall: float
    cpu: float


def rates(read: Callable[[], int]) -> Rates:
    wall, cpu = time.perf_counter(), time.process_time()
    rows = read()
    return Rates(rows / (time.perf_counter() - wall), rows / (time.process_time() - cpu))


def measure(rows: int = ROWS) -> dict[str, float]:
    """Rows a second of each way, and their ratio to pyarrow's."""
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        write(directory, rows)
        ways: dict[str, Callable[[], int]] = {
            "scanner": lambda: sum(scan(directory) for _ in range(PASSES)),
            "groups": lambda: sum(groups(directory) for _ in range(PASSES)),
            "plain": lambda: batches(directory, 0),
            "shuffled": lambda: batches(directory, 10_000),
        }
        for read in ways.values():
            read()
        taken: dict[str, list[Rates]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, read in ways.items():
                taken[name].append(rates(read))
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
