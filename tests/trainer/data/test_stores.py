"""Parquet where it lies in clusters: on a real HDFS, and in object stores that speak Google's and Amazon's protocol."""

import pickle

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import fs, parquet

from dtj import data
from dtj_trainer.data.sharding import Shard
from dtj_trainer.errors import PreflightFailed

pytestmark = pytest.mark.trainer
ROWS = 1000


def write(create):
    """Two files; programs of Hadoop leave a _SUCCESS beside them."""
    for number, rows in enumerate((range(400), range(400, ROWS))):
        columns = {"id": list(rows), "half": [n / 2 for n in rows], "text": [f"t{n}" for n in rows]}
        with create(f"logs/day=1/part-{number}.parquet") as file:
            parquet.write_table(pa.table(columns), file, row_group_size=150)
    with create("logs/day=1/_SUCCESS"):
        pass


@pytest.fixture(scope="module")
def on_hdfs(hadoop):
    system = fsspec.filesystem("webhdfs", host="127.0.0.1", port=hadoop.http)
    system.mkdirs("/logs/day=1")
    write(lambda path: system.open(f"/{path}", "wb"))
    return hadoop.uri("/logs/day=1"), {}


@pytest.fixture(scope="module")
def in_bucket(objects):
    options = {"anonymous": True, "scheme": "http", "endpoint_override": objects.address}
    write(fs.GcsFileSystem(**options).open_output_stream)
    return "gs://logs/day=1", options


@pytest.fixture(scope="module")
def in_s3(s3_store):
    write(fs.S3FileSystem(**s3_store.options).open_output_stream)
    return "s3://logs/day=1", s3_store.options


@pytest.fixture(params=["hdfs", "gs", "s3"])
def day(request):
    return request.getfixturevalue({"hdfs": "on_hdfs", "gs": "in_bucket", "s3": "in_s3"}[request.param])


def test_two_workers_read_every_example_once_wherever_the_files_lie(day):
    uri, options = day
    source = data.parquet(uri, columns=["half", "text"], label="id", storage=options)
    assert source.size == ROWS
    seen = []
    for worker in range(2):
        pipeline = data.Pipeline(source, shuffle=100, repeat=False)
        for columns, ids in pipeline.training(Shard(2, worker, 10, 20), seed=1):
            assert (columns["half"].numpy() == ids.numpy() / 2).all()
            assert columns["text"].numpy().tolist() == [f"t{n}".encode() for n in ids.numpy()]
            seen += ids.numpy().tolist()
    assert np.sort(seen).tolist() == list(range(ROWS))


def test_a_source_travels_to_the_processes_that_read_it(day):
    uri, options = day
    source = pickle.loads(pickle.dumps(data.parquet(uri, columns=["id"], storage=options)))
    assert source.read(source.blocks[-1])["id"].tolist() == list(range(850, ROWS))


def test_files_are_named_as_people_name_them_and_missing_ones_in_one_sentence(day):
    uri, options = day
    assert data.parquet(f"{uri}/*-1.parquet", storage=options).blocks[0].file.name == f"{uri}/part-1.parquet"
    with pytest.raises(PreflightFailed, match=f"the data file {uri}2 does not exist"):
        data.parquet(f"{uri}2", storage=options)


def test_a_store_that_is_not_amazons_is_named_by_the_environment(in_s3, s3_store, monkeypatch):
    uri, _ = in_s3
    for name, value in s3_store.environment.items():
        monkeypatch.setenv(name, value)
    assert data.parquet(uri, columns=["id"]).size == ROWS
