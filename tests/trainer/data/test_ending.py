"""A program that ends while its data could go on for ever."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

pytestmark = pytest.mark.trainer

PROGRAM = Path(__file__).parent / "programs" / "abandoned.py"
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("mapping", [(), ("map",)], ids=["plain", "mapped"])
def test_an_iterator_that_nobody_reads_any_more_lets_the_program_end(tmp_path: Path, mapping: tuple[str, ...]):
    table = pa.table({"id": list(range(20_000)), "x": [f"t{n}" for n in range(20_000)]})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=500)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "trainer-image"), "TF_CPP_MIN_LOG_LEVEL": "2"}
    program = [sys.executable, str(PROGRAM), str(tmp_path), *mapping]
    ended = subprocess.run(program, env=environment, check=False, timeout=60, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]
