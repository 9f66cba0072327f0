"""Files as blocks of examples, and the one sentence for whatever is wrong with them."""

import itertools
import pickle
import socket

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from dtj_trainer import data
from dtj_trainer.data import block_prefetcher
from dtj_trainer.data.block_index import BlockIndex
from dtj_trainer.data.block_prefetcher import chunks
from dtj_trainer.data.position import ReadSpan
from dtj_trainer.data.reader import Reader
from dtj_trainer.data.sampler import Order
from dtj_trainer.data.sharding import Shard
from dtj_trainer.data.sources import csv_files, tfrecord_files
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.storage import file_system, webhdfs
from tests.trainer.data import tfrecords


def table(rows):
    return pa.table(
        {"id": list(range(rows)), "text": [f"t{n}" for n in range(rows)], "half": [n / 2 for n in range(rows)]}
    )


def whole(source):
    """All columns of all blocks."""
    blocks = [pickle.loads(pickle.dumps(source)).read(block) for block in source.blocks]
    return {name: np.concatenate([block[name] for block in blocks]).tolist() for name in blocks[0]}


def test_parquet_reads_the_asked_columns_row_group_by_row_group(tmp_path):
    parquet.write_table(table(25), tmp_path / "a.parquet", row_group_size=10)
    source = data.parquet(tmp_path, columns=["half"], label="id")
    assert [block.rows for block in source.blocks] == [10, 10, 5]
    assert whole(source) == {"half": [n / 2 for n in range(25)], "id": list(range(25))}
    assert source.example({"half": 1.0, "id": 2}) == ({"half": 1.0}, 2)


def test_a_parquet_page_with_a_wrong_checksum_is_refused_with_its_file(tmp_path):
    file = tmp_path / "a.parquet"
    plain = {"compression": "NONE", "use_dictionary": False}
    parquet.write_table(pa.table({"x": np.arange(1000.0)}), file, write_page_checksum=True, **plain)
    written = bytearray(file.read_bytes())
    written[written.index(np.float64(500).tobytes())] ^= 1
    file.write_bytes(written)
    source = data.parquet(file)
    with pytest.raises(PreflightFailed, match=rf"{file} cannot be read \(.*checksum.*\)"):
        source.read(source.blocks[0])


def test_parquet_lists_of_fixed_length_are_vectors(tmp_path):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(range(12), "float32"), 3)
    parquet.write_table(pa.table({"v": vectors}), tmp_path / "a.parquet", row_group_size=2)
    source = data.parquet(tmp_path / "*.parquet")
    assert source.read(source.blocks[1])["v"].tolist() == [[6, 7, 8], [9, 10, 11]]


def test_what_stands_for_missing_values_is_said_by_column(tmp_path):
    parquet.write_table(pa.table({"n": [1, None], "x": [None, 0.5]}), tmp_path / "a.parquet")
    with pytest.raises(PreflightFailed, match=r"column 'n' of .*a\.parquet has empty values; say what stands for them"):
        whole(data.parquet(tmp_path))
    read = whole(data.parquet(tmp_path, empty={"n": -1}))
    assert read["n"] == [1, -1]
    assert np.isnan(read["x"][0])


def test_parquet_lists_of_lists_are_matrices(tmp_path):
    kind = pa.list_(pa.list_(pa.float32(), 2), 3)
    matrices = np.arange(24, dtype="float32").reshape(4, 3, 2)
    parquet.write_table(pa.table({"m": pa.array(matrices.tolist(), kind)}), tmp_path / "a.parquet", row_group_size=2)
    source = data.parquet(tmp_path)
    assert source.read(source.blocks[1])["m"].tolist() == matrices[2:].tolist()


@pytest.mark.parametrize(("kind", "values"), [("int64", [1, None]), ("bool", [True, None]), ("string", ["a", None])])
def test_a_missing_value_within_a_list_is_refused_where_no_nan_can_stand_for_it(tmp_path, kind, values):
    lists = pa.array([values, values], pa.list_(pa.type_for_alias(kind), 2))
    parquet.write_table(pa.table({"v": lists, "n": range(2)}), tmp_path / "a.parquet")
    source = data.parquet(tmp_path)
    with pytest.raises(PreflightFailed, match=r"lists of column 'v' of .*a\.parquet have empty values; fill them"):
        source.read(source.blocks[0])


def test_a_missing_value_within_a_list_of_floats_is_nan(tmp_path):
    lists = pa.array([[1.0, None], [2.0, 3.0]], pa.list_(pa.float32(), 2))
    parquet.write_table(pa.table({"v": lists}), tmp_path / "a.parquet")
    source = data.parquet(tmp_path)
    assert np.isnan(source.read(source.blocks[0])["v"]).tolist() == [[False, True], [False, False]]


def test_what_cannot_stand_for_a_missing_value_is_said(tmp_path):
    parquet.write_table(pa.table({"n": pa.array([1, None], "uint8")}), tmp_path / "a.parquet")
    for value in (-1, "none"):
        source = data.parquet(tmp_path, empty={"n": value})
        with pytest.raises(PreflightFailed, match=rf"empty={{'n': {value!r}}} cannot stand in a column of uint8"):
            source.read(source.blocks[0])


def test_a_block_counts_as_what_it_takes_in_memory_however_small_it_is_in_the_file(tmp_path):
    numbers = pa.table({f"c{n}": np.zeros(5_000) for n in range(20)} | {"text": ["same"] * 5_000})
    parquet.write_table(numbers, tmp_path / "a.parquet")
    csv.write_csv(numbers, tmp_path / "a.csv")
    for source in (data.parquet(tmp_path), data.csv(tmp_path)):
        for block in source.blocks:
            assert block.size >= sum(column.nbytes for column in source.read(block).values())


def test_chunks_of_a_wide_table_of_few_values_stay_small(tmp_path, monkeypatch):
    monkeypatch.setattr(block_prefetcher, "CHUNK_BYTES", 1 << 20)
    parquet.write_table(pa.table({f"c{n}": np.zeros(5_000) for n in range(200)}), tmp_path / "a.parquet")
    source = data.parquet(tmp_path)
    reading = Reader(source, Shard(1, 0, 10, 10), Order(source.size, 1_000, 0), (), repeat=False, keep=False)
    assert max(sum(column.nbytes for column in chunk.values()) for chunk in reading.chunks()) < 2 << 20


def test_csv_blocks_end_with_lines_and_quotes_are_understood(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK", 40)
    lines = ['"a ""quoted""\nline"' if n % 3 == 0 else "plain" for n in range(50)]
    (tmp_path / "a.csv").write_text("id,words\n" + "".join(f"{n},{words}\n" for n, words in enumerate(lines)))
    (tmp_path / "b.csv").write_text("id,words\r\n50,x\r\n\r\n51,y")
    source = data.csv(tmp_path, types={"id": "int32"})
    read = whole(source)
    assert source.size == 52
    assert len(source.blocks) > 10
    assert read["id"] == list(range(52))
    assert read["words"][:2] == ['a "quoted"\nline', "plain"]
    assert source.read(source.blocks[0])["id"].dtype == np.int32


def test_a_quote_within_a_plain_csv_value_is_a_character(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK", 40)
    lines = ['19" monitor', *["plain"] * 20, '"two\nlines"', '3" x 5" frame', *["plain"] * 20]
    (tmp_path / "a.csv").write_text("id,words\n" + "".join(f"{n},{words}\n" for n, words in enumerate(lines)))
    source = data.csv(tmp_path)
    assert len(source.blocks) > 5
    assert whole(source) == {"id": list(range(len(lines))), "words": [each.strip('"') for each in lines]}


def test_a_quote_that_is_never_closed_is_said_and_not_looked_for_to_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK", 40)
    monkeypatch.setattr(csv_files, "LONGEST", 400)
    (tmp_path / "a.csv").write_text('id,words\n0,plain\n1,"open\n' + "2,plain\n" * 200)
    with pytest.raises(PreflightFailed, match=r"a\.csv has no end of the line that begins at byte 17"):
        data.csv(tmp_path)


def test_tfrecord_blocks_are_whole_records(tmp_path, monkeypatch):
    monkeypatch.setattr(tfrecord_files, "BLOCK", 100)
    (tmp_path / "a.tfrecord").write_bytes(tfrecords.of_ids(range(20)))
    source = data.tfrecord(tmp_path, parse=str)
    assert len(source.blocks) > 3
    assert whole(source)["record"] == [tfrecords.example(n) for n in range(20)]


def test_chunks_come_in_the_asked_order_over_blocks(tmp_path):
    parquet.write_table(table(100), tmp_path / "a.parquet", row_group_size=7)
    source = data.parquet(tmp_path, columns=["id", "text"])
    asked = np.random.default_rng(0).permutation(100)
    index = BlockIndex([block.rows for block in source.blocks], 1, mixed=False, same_each_pass=False)
    read = list(chunks(source, index, iter([(0, asked[:60]), (0, asked[60:]), (1, asked[:5])]), keep=False))
    assert np.concatenate([chunk["id"] for chunk in read]).tolist() == [*asked, *asked[:5]]
    assert read[0]["text"][0] == f"t{asked[0]}"


def test_a_worker_goes_on_where_the_end_of_a_pass_was_saved_and_another_had_one_example_more_to_read(tmp_path):
    parquet.write_table(table(101), tmp_path / "a.parquet", row_group_size=10)
    source, order = data.parquet(tmp_path, columns=["id"]), Order(101, 10_000, 0)
    ids = []
    for worker in range(2):
        history = (ReadSpan(2, 100),)
        read = Reader(source, Shard(2, worker, 10, 20), order, history, repeat=True, keep=False).chunks()
        ids.append(list(itertools.islice((n for chunk in read for n in chunk["id"].tolist()), 51)))
    assert sorted(ids[0] + ids[1][1:]) == list(range(101))


def test_examples_that_follow_one_another_are_not_gathered_over_blocks(tmp_path):
    parquet.write_table(table(100), tmp_path / "a.parquet", row_group_size=30)
    source = data.parquet(tmp_path, columns=["id"])
    index = BlockIndex([block.rows for block in source.blocks], 1, mixed=False, same_each_pass=False)
    read = list(chunks(source, index, iter([(0, np.arange(10, 95))]), keep=False))
    assert [(chunk["id"][0], chunk["id"][-1]) for chunk in read] == [(10, 29), (30, 59), (60, 89), (90, 94)]
    assert all(chunk["id"].base is not None for chunk in read)


@pytest.mark.parametrize("keep", [True, False])
def test_no_more_than_a_few_passes_over_a_small_table_are_looked_up_before_the_first_examples_come(tmp_path, keep):
    parquet.write_table(table(100), tmp_path / "a.parquet", row_group_size=30)
    source = data.parquet(tmp_path, columns=["id"])
    index = BlockIndex([block.rows for block in source.blocks], 1, mixed=True, same_each_pass=keep)
    passes = itertools.count()
    found = chunks(source, index, ((number, np.arange(100)[::-1]) for number in passes), keep=keep)
    assert len(next(found)["id"]) == 100
    assert next(passes) <= 4


def test_a_uri_is_read_through_fsspec():
    import fsspec

    system = fsspec.filesystem("memory")
    with system.open("/bucket/day=1/a.parquet", "wb") as file:
        parquet.write_table(table(5), file)
    source = data.parquet("memory://bucket/day=1", columns=["id"])
    assert whole(source) == {"id": [0, 1, 2, 3, 4]}


@pytest.fixture(params=["", "local://"])
def partitioned(request, tmp_path):
    """A directory with files in directories of directories, by its path and by a URI."""
    for number, place in enumerate(("", "day=1", "day=1/hour=2", "day=2.parquet")):
        (tmp_path / place).mkdir(exist_ok=True)
        parquet.write_table(pa.table({"id": [number]}), tmp_path / place / "a.parquet")
    return f"{request.param}{tmp_path}"


def test_two_stars_of_a_pattern_mean_directories_at_any_depth_here_and_behind_a_uri(partitioned):
    assert sorted(whole(data.parquet(f"{partitioned}/**/*.parquet"))["id"]) == [0, 1, 2, 3]


def test_a_pattern_means_files_and_no_directories_here_and_behind_a_uri(partitioned):
    assert whole(data.parquet(f"{partitioned}/*.parquet")) == {"id": [0]}


def test_hdfs_goes_through_webhdfs():
    assert file_system.by_webhdfs("hdfs://name/a/b") == "webhdfs://name:9870/a/b"
    assert file_system.by_webhdfs("hdfs://me@name:8020/a") == "webhdfs://me@name:9870/a"
    assert file_system.by_webhdfs("hdfs://name:50070/a") == "webhdfs://name:50070/a"


def test_an_hdfs_that_is_silent_or_away_is_told_of_in_one_sentence(monkeypatch):
    monkeypatch.setattr(webhdfs, "SILENCE_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(PreflightFailed, match=f"the service that holds hdfs://127.0.0.1:{port}/a does not answer"):
            data.parquet(f"hdfs://127.0.0.1:{port}/a")
    with pytest.raises(PreflightFailed, match="does not answer; check its address and that it runs"):
        data.parquet(f"hdfs://127.0.0.1:{port}/b")


WRONG = {
    "does not exist": lambda folder: data.csv(folder / "none.csv"),
    "no data file matches": lambda folder: data.csv(str(folder / "*.none")),
    "has no data file in it": lambda folder: data.tfrecord(folder, str),
    "is empty": lambda folder: data.csv(folder / "empty.csv"),
    "has a header and no rows": lambda folder: data.csv(folder / "header.csv"),
    "has no column 'z'; it has id, text, half": lambda folder: data.parquet(folder / "a.parquet", columns=["z"]),
    "has no column 'y'": lambda folder: data.csv(folder / "a.csv", label="y"),
    "cannot be read": lambda folder: data.parquet(folder / "a.csv"),
    "is no uncompressed TFRecord file": lambda folder: data.tfrecord(folder / "a.csv", str),
    "is cut off": lambda folder: data.tfrecord(folder / "cut.records", str),
    "which TensorFlow does not take": lambda folder: data.parquet(folder / "lists.parquet"),
    "and int64 in the files before it": lambda folder: data.parquet(
        [folder / "a.parquet", folder / "other.parquet"], columns=["id"]
    ),
    "given no files": lambda _: data.parquet([]),
    "Protocol not known": lambda _: data.parquet("nosuchstore://bucket/a"),
    "without a driver": lambda _: data.parquet("abfs://container/a"),
    "does not answer; check its address": lambda _: data.parquet("webhdfs://127.0.0.1:9/a"),
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_files_are_refused_in_one_sentence(words, tmp_path, monkeypatch):
    monkeypatch.setattr("dtj_trainer.data.sources.files.time.sleep", lambda _: None)
    parquet.write_table(table(3), tmp_path / "a.parquet")
    parquet.write_table(pa.table({"id": ["x"]}), tmp_path / "other.parquet")
    parquet.write_table(pa.table({"l": [[1], [2, 3]]}), tmp_path / "lists.parquet")
    csv.write_csv(table(3), tmp_path / "a.csv")
    (tmp_path / "empty.csv").touch()
    (tmp_path / "header.csv").write_text("id,text\n")
    (tmp_path / "cut.records").write_bytes(tfrecords.of_ids(range(3))[:-5])
    with pytest.raises(PreflightFailed) as caught:
        WRONG[words](tmp_path)
    assert words in caught.value.message
    assert "\n" not in caught.value.message
