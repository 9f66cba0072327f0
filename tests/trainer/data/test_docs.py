"""The program in docs/data.md runs as it stands."""

import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.trainer.loop.launch import ROOT

pytestmark = pytest.mark.trainer


def test_the_program_of_the_data_page_runs(tmp_path):
    found = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "data.md").read_text(), re.DOTALL)
    assert found is not None
    rng = np.random.default_rng(0)
    (tmp_path / "clicks").mkdir()
    columns = {"price": rng.random(320), "age": rng.integers(18, 90, 320), "bought": rng.integers(0, 2, 320)}
    parquet.write_table(pa.table(columns), tmp_path / "clicks" / "a.parquet")
    ended = subprocess.run(
        [sys.executable, "-c", found[1]],
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT / "trainer-image"), "PATH": "", "TF_CPP_MIN_LOG_LEVEL": "2", "DTJ_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert ended.stdout.splitlines()[-1] == "20"
