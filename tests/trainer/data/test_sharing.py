"""Files shared among processes: each example once a pass, also after kills and with another number of workers."""

import shutil
from collections import Counter

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from tests.trainer.data import tfrecords
from tests.trainer.training import launch

pytestmark = pytest.mark.trainer
SIZE = 96
PROGRAM = "../../data/programs/sharing.py"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Three unequal files of each kind with the ids 0..95."""
    root = tmp_path_factory.mktemp("files")
    for kind in ("parquet", "csv", "tfrecord"):
        (root / kind).mkdir()
    for number, (start, stop) in enumerate(((0, 50), (50, 60), (60, SIZE))):
        table = pa.table({"id": list(range(start, stop)), "other": ["a"] * (stop - start)})
        parquet.write_table(table, root / "parquet" / f"{number}.parquet", row_group_size=11)
        csv.write_csv(table, root / "csv" / f"{number}.csv")
        (root / "tfrecord" / f"{number}.tfrecord").write_bytes(tfrecords.of_ids(range(start, stop)))
    return root


def seen(folder):
    """(step, id) of every line that the processes wrote."""
    lines = [line.split() for log in folder.glob("*.log") for line in log.read_text().splitlines()]
    return [(int(step), int(each)) for step, *ids in lines for each in ids]


def saved_before(before, after):
    """What the first run saw up to the checkpoint: that of step 6, or of 3 where 6 was not yet written when it died."""
    first = min(step for step, _ in seen(after))
    assert first in {4, 7}
    return [(step, each) for step, each in seen(before) if step < first]


@pytest.mark.parametrize(
    ("kind", "settings"), [("parquet", {}), ("csv", {"TEST_CACHE": "1"}), ("tfrecord", {"TEST_MAP": "1"})]
)
def test_killed_in_the_middle_of_an_epoch_and_resumed_it_reads_each_remaining_example_once(
    kind, settings, folders, tmp_path
):
    undisturbed, before, after = (tmp_path / name for name in ("undisturbed", "before", "after"))
    for folder in (undisturbed, before, after):
        folder.mkdir()
    launch.run(PROGRAM, kind, str(folders / kind), str(undisturbed), environment=settings)
    environment = {**settings, **launch.checkpoint(tmp_path / "state", everySteps=3)}
    killed = launch.run(
        PROGRAM, kind, str(folders / kind), str(before), environment={**environment, "TEST_DIE_AT": "9"}
    )
    assert killed.code == 137, killed.output
    resumed = launch.run(PROGRAM, kind, str(folders / kind), str(after), environment=environment)
    assert resumed.said["step"] == 32, resumed.output
    assert saved_before(before, after) + seen(after) == seen(undisturbed)
    assert Counter(each for _, each in seen(undisturbed)) == dict.fromkeys(range(SIZE), 2)


def test_a_dataset_resumed_with_larger_batches_goes_on_at_the_same_example(tmp_path):
    """As where a program makes them as large as it has replicas, and the job has more of them than before."""
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    environment = launch.checkpoint(tmp_path / "state", everySteps=3)
    killed = launch.run(PROGRAM, "dataset", "4", str(before), environment={**environment, "TEST_DIE_AT": "9"})
    assert killed.code == 137, killed.output
    resumed = launch.run(PROGRAM, "dataset", "12", str(after), environment=environment)
    assert resumed.code == 0, resumed.output
    steps = saved_before(before, after) + seen(after)
    assert Counter(each for _, each in steps) == dict.fromkeys(range(SIZE), 2)


def test_after_a_change_from_two_workers_to_three_each_remaining_example_is_read_once(folders, tmp_path):
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    environment = launch.checkpoint(tmp_path / "state", everySteps=3)
    two = launch.run_workers(
        2, PROGRAM, "parquet", str(folders / "parquet"), str(before), environment={**environment, "TEST_DIE_AT": "9"}
    )
    assert {each.code for each in two} <= {137, 75}, two[0].output
    three = launch.run_workers(3, PROGRAM, "parquet", str(folders / "parquet"), str(after), environment=environment)
    assert [each.said["step"] for each in three] == [32, 32, 32]
    steps = saved_before(before, after) + seen(after)
    assert Counter(each for step, each in steps if step <= 16) == dict.fromkeys(range(SIZE), 1)
    assert Counter(each for _, each in steps) == dict.fromkeys(range(SIZE), 2)


def test_workers_that_do_not_see_the_same_examples_say_so(folders, tmp_path):
    """As when a file comes into the directory after the first of them has looked."""
    for index in range(2):
        shutil.copytree(folders / "parquet", tmp_path / f"seen-by-{index}")
    parquet.write_table(pa.table({"id": range(96, 156)}), tmp_path / "seen-by-1" / "late.parquet")
    ended = launch.run_workers(2, PROGRAM, "parquet", str(tmp_path / "seen-by-{index}"), str(tmp_path))
    assert [each.code for each in ended] == [75, 75], ended[1].output
    said = "the chief sees 96 examples in the data and this process 156 examples; give every replica the same files"
    assert said in ended[1].exit_line


def test_a_plain_dataset_shuffled_without_a_seed_is_refused_when_several_processes_read_it():
    program = "../../data/programs/shuffled.py"
    assert launch.run(program).said == {"step": 6, "sum": 276}
    refused = launch.run_workers(2, program)
    for each in refused:
        assert each.code == 1, each.output
        assert (
            "the dataset is shuffled without a seed, so each of 2 processes would read another order" in each.exit_line
        )
    assert [each.said["sum"] for each in launch.run_workers(2, program, "7")] == [276, 276]
