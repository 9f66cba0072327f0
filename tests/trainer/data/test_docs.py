"""The program in docs/howto/data.md runs as it stands."""

import re

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.trainer.training import launch

pytestmark = pytest.mark.trainer


def test_the_program_of_the_data_page_runs(tmp_path):
    found = re.search(r"```python\n(.*?)```", (launch.ROOT / "docs" / "howto" / "data.md").read_text(), re.DOTALL)
    assert found is not None
    rng = np.random.default_rng(0)
    (tmp_path / "clicks").mkdir()
    columns = {"price": rng.random(320), "age": rng.integers(18, 90, 320), "bought": rng.integers(0, 2, 320)}
    parquet.write_table(pa.table(columns), tmp_path / "clicks" / "a.parquet")
    program = tmp_path / "program.py"
    program.write_text(found[1])
    ended = launch.finish(launch.fork_server().spawn(program, [], {"DTJ_THREADS": "1"}, directory=tmp_path))
    assert ended.code == 0, ended.output[-3000:]
    assert ended.output.splitlines()[-1] == "20"
