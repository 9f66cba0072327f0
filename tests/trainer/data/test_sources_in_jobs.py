"""Files as the data of whole jobs under `dtj-run`: with parameter servers, and when something is wrong with them."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.support.ports import free_port
from tests.trainer.supervisor.conftest import Launcher, launch

pytestmark = pytest.mark.trainer
__all__ = ["launch"]

PROGRAM = str(Path(__file__).parent / "programs" / "table.py")
TASKS = (("ps", 0), ("worker", 0), ("worker", 1), ("chief", 0))


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 400)).astype("float32")
    folder = tmp_path / "table"
    folder.mkdir()
    for start in (0, 150):
        part = slice(start, start + (150 if start == 0 else 250))
        columns = pa.table(
            {"a": a[part], "b": b[part], "y": (2 * a - b)[part], "n": pa.array([None] * len(a[part]), "int32")}
        )
        parquet.write_table(columns, folder / f"part-{start}.parquet", row_group_size=60)
    return folder


def test_the_workers_of_a_parameter_server_job_read_parquet_by_themselves(launch: Launcher, table):
    addresses = {task: f"127.0.0.1:{free_port()}" for task in TASKS}
    ports = {address: free_port() for address in addresses.values()}
    cluster = {role: [addresses[r, i] for r, i in TASKS if r == role] for role in ("ps", "worker", "chief")}
    pods = {
        (role, index): launch.start(
            "--threads",
            "1",
            PROGRAM,
            str(table),
            http=ports[addresses[role, index]],
            environment={
                "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}}),
                "DTJ_UID": "u1",
                "DTJ_ROLE": role,
                "DTJ_INDEX": str(index),
                "DTJ_STRATEGY": '{"type": "ParameterServer"}',
                "DTJ_PEER_PORTS": json.dumps(ports),
            },
        )
        for role, index in TASKS
    }
    chief = pods["chief", 0]
    assert chief.wait() == 0, chief.log
    told = json.loads(chief.said[-1])
    assert told["step"] == 80
    assert told["val_loss"] < 0.1


@pytest.mark.parametrize(
    ("folder", "label", "says"),
    [
        ("nowhere", "y", "the data file {}/nowhere does not exist; check the path and the volume"),
        ("table", "z", "{}/table/part-0.parquet has no column 'z'; it has a, b, y, n"),
        (
            "table",
            "n",
            "column 'n' of {}/table/part-0.parquet has empty values; say what stands for them: empty={{'n': …}}",
        ),
    ],
)
def test_wrong_data_ends_a_job_with_one_sentence(launch: Launcher, table, folder, label, says):
    pod = launch.start("--threads", "1", PROGRAM, str(table.parent / folder), label)
    assert pod.wait() == 1, pod.log
    told = pod.termination()
    assert told["class"] == "preflight-failed"
    assert str(told["message"]).replace("part-150", "part-0") == says.format(table.parent)
    assert pod.last_line == told["message"]
