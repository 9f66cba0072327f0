"""Parquet where it lies in clusters: on a real HDFS."""

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dtj_trainer import data
from dtj_trainer.data.share import Share
from dtj_trainer.errors import PreflightFailed

pytestmark = pytest.mark.trainer
ROWS = 1000


@pytest.fixture(scope="module")
def day(hadoop):
    """The URI of a directory with two files; Hadoop's own leave a _SUCCESS beside them."""
    system = fsspec.filesystem("webhdfs", host="127.0.0.1", port=hadoop.http)
    system.mkdirs("/logs/day=1")
    for number, rows in enumerate((range(400), range(400, ROWS))):
        columns = {"id": list(rows), "half": [n / 2 for n in rows], "text": [f"t{n}" for n in rows]}
        with system.open(f"/logs/day=1/part-{number}.parquet", "wb") as file:
            parquet.write_table(pa.table(columns), file, row_group_size=150)
    with system.open("/logs/day=1/_SUCCESS", "wb"):
        pass
    return hadoop.uri("/logs/day=1")


@pytest.mark.parametrize("way", ["hdfs", "webhdfs"])
def test_two_workers_read_every_example_of_files_on_hdfs_once(way, day):
    source = data.parquet(day.replace("hdfs", way, 1), columns=["half", "text"], label="id")
    assert source.size == ROWS
    seen = []
    for worker in range(2):
        pipeline = data.Pipeline(source, shuffle=100, repeat=False)
        for columns, ids in pipeline.training(Share(2, worker, 10, 20), seed=1):
            assert (columns["half"].numpy() == ids.numpy() / 2).all()
            assert columns["text"].numpy().tolist() == [f"t{n}".encode() for n in ids.numpy()]
            seen += ids.numpy().tolist()
    assert np.sort(seen).tolist() == list(range(ROWS))


def test_files_on_hdfs_are_named_with_their_host_and_missing_ones_in_one_sentence(hadoop, day):
    assert data.parquet(f"{day}/*-1.parquet").blocks[0].file.name == f"{day}/part-1.parquet"
    with pytest.raises(PreflightFailed, match=r"the data file hdfs://127\.0\.0\.1:\d+/logs/day=2 does not exist"):
        data.parquet(hadoop.uri("/logs/day=2"))
