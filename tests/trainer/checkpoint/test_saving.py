"""A checkpoint is whole or not there, whenever its writer dies."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.trainer.training import launch

pytestmark = pytest.mark.trainer

PROGRAMS = Path(__file__).parent / "programs"


def test_whichever_file_operation_of_a_save_is_the_last_a_reader_finds_a_whole_checkpoint(tmp_path):
    ended = launch.run("saves.py", str(tmp_path / "state"), "10", folder=PROGRAMS)
    assert ended.code == 0, ended.output
    said = ended.said
    assert said["operations"] >= 15
    last, before = said["step"], said["step"] - 1
    assert said["left"] == sorted(
        ["checkpoint", "job.json", "owner.json"]
        + [f"ckpt-{step}.{part}" for step in (before, last) for part in ("data-00000-of-00001", "index")]
    )


def test_all_processes_save_a_variable_whose_value_is_the_sum_of_theirs_wherever_the_state_holds_it(tmp_path):
    import tensorflow as tf

    ended = launch.run_workers(2, "on_read.py", environment=launch.checkpoint(tmp_path, everySteps=2))
    assert [each.code for each in ended] == [0, 0], ended[0].output + ended[1].output
    saved = tf.train.load_checkpoint(str(tmp_path / "ckpt-6"))
    assert saved.get_tensor("seen/.ATTRIBUTES/VARIABLE_VALUE") == 12


@pytest.fixture
def small_disk(tmp_path):
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_is_one_sentence(small_disk):
    ended = launch.run("saves.py", str(small_disk / "state"), "1000000", folder=PROGRAMS)
    assert ended.said == {
        "message": f"the disk of {small_disk}/state is full, no checkpoint could be saved; "
        "free space or use a larger volume",
        "class": "user-error",
        "code": 1,
    }
    assert not list((small_disk / "state").glob(".writing-*"))
