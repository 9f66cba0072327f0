"""Readings that nobody goes on with: the program ends, or drops the iterator, while the data could go on for ever."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.support import source_roots

pytestmark = pytest.mark.trainer

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.parametrize("mapping", [(), ("map",)], ids=["plain", "mapped"])
def test_an_iterator_that_nobody_reads_any_more_lets_the_program_end(tmp_path: Path, mapping: tuple[str, ...]):
    table = pa.table({"id": list(range(20_000)), "x": [f"t{n}" for n in range(20_000)]})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=500)
    assert said("abandoned.py", tmp_path, *mapping) == ""


@pytest.mark.parametrize("window", [0, 10_000])
def test_reading_holds_a_few_blocks_of_a_large_file_and_none_once_its_iterator_is_gone(tmp_path: Path, window: int):
    block, blocks = 1 << 20, 64
    table = pa.table({"x": np.random.default_rng(0).random(blocks * block // 8)})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=block // 8, compression="none")
    told = json.loads(said("let_go.py", tmp_path, window))
    assert told["reading"]["readers"] in {1, 2}  # one, where each block is read before the next is asked for
    assert told["reading"]["bytes"] >= 4 * block
    assert told["reading"]["most"] <= 16 * block
    assert told["dropped"]["readers"] == 0
    assert told["dropped"]["bytes"] <= block


def said(program: str, *arguments: object) -> str:
    """What a program writes that ends by itself."""
    environment = os.environ | {"PYTHONPATH": source_roots.TRAINER, "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, str(PROGRAMS / program), *map(str, arguments)]
    ended = subprocess.run(command, env=environment, check=False, timeout=60, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout
