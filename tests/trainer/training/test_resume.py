"""A job that was killed, or asked to leave, goes on as if nothing had happened."""

import json

import numpy as np
import pytest

from tests.support.ports import free_ports
from tests.trainer.training import launch
from tests.trainer.training.kills import EPOCHS, STEPS, killed

pytestmark = pytest.mark.trainer


def test_killed_twenty_times_at_random_steps_it_ends_with_the_same_bits(tmp_path):
    environment = {"TEST_EPOCHS": EPOCHS}
    undisturbed = launch.run("resume.py", environment=environment)
    (ended,) = killed(20, tmp_path, 1, environment)
    assert ended.said["resumed_from"] % 3 == 0
    assert ended.said["step"] == STEPS
    assert ended.said["digest"] == undisturbed.said["digest"]
    again = launch.run("resume.py", environment={**environment, **launch.checkpoint(tmp_path)})
    assert again.code == 0
    assert (again.said["resumed_from"], again.said["digest"]) == (STEPS, undisturbed.said["digest"])


@pytest.mark.parametrize(("devices", "count", "kills"), [(2, 1, 5), (1, 2, 3)])
def test_killed_at_random_steps_several_replicas_end_as_undisturbed_ones(devices, count, kills, tmp_path):
    """Within 1e-4 of the weights' size, or 1e-5: sums over replicas come in any order."""
    environment = {"TEST_EPOCHS": EPOCHS, "DTJ_LOGICAL_DEVICES": str(devices)}
    undisturbed = launch.run_workers(count, "resume.py", environment=environment)
    for ended in killed(kills, tmp_path, count, environment):
        assert ended.said["step"] == STEPS
        np.testing.assert_allclose(ended.said["weights"], undisturbed[0].said["weights"], rtol=1e-4, atol=1e-5)


@pytest.mark.matrix
def test_one_worker_asked_to_leave_makes_both_save_the_same_step_and_end_with_42(tmp_path):
    environment = launch.checkpoint(tmp_path)
    addresses = free_ports(2)
    processes = []
    for index in range(2):
        task = {"cluster": {"worker": [f"127.0.0.1:{port}" for port in addresses]}}
        config = json.dumps({**task, "task": {"type": "worker", "index": index}})
        leaves = {"TEST_LEAVE_AT": "5"} if index == 1 else {"TEST_LEAVE_AT": "999"}
        processes.append(launch.start("resume.py", environment={**environment, **leaves, "TF_CONFIG": config}))
    ended = [launch.finish(process) for process in processes]
    assert [each.code for each in ended] == [42, 42], ended[0].output + ended[1].output
    assert {each.exit_line for each in ended} == {"dtj: asked to leave; saved step 6"}
    assert (tmp_path / "ckpt-6.index").exists()


@pytest.fixture(scope="module")
def validated():
    return launch.run("validating.py").said["told"]


@pytest.mark.parametrize(("count", "epoch", "settings"), [(1, 1, {"TEST_BY_BATCH": "1"}), (2, 2, {})])
def test_asked_to_leave_while_it_validates_a_job_leaves_at_once_and_later_ends_that_epoch(
    count, epoch, settings, validated, tmp_path
):
    environment = launch.checkpoint(tmp_path)
    asked = {**settings, "TEST_ASKED_IN": str(epoch)}
    ended = launch.run_workers(count, "validating.py", environment={**environment, **asked})
    assert [each.code for each in ended] == [42] * count, ended[0].output + ended[-1].output
    assert {each.exit_line for each in ended} == {f"dtj: asked to leave; saved step {10 * (epoch + 1)}"}
    assert {each.output.count("validated, loss ") for each in ended} == {epoch + 1}
    resumed = launch.run_workers(count, "validating.py", environment=environment)
    for before, after in zip(ended, resumed, strict=True):
        assert after.said["begun"] == list(range(epoch, 3))
        told = [*before.said["told"], *after.said["told"]]
        assert told == [pytest.approx(each, rel=1e-4) for each in validated]


@pytest.mark.matrix
def test_what_callbacks_did_to_rate_and_weights_is_neither_lost_nor_done_again(tmp_path):
    undisturbed = launch.run("changing.py", str(tmp_path / "other"))
    environment = launch.checkpoint(tmp_path / "state", everySteps=10)
    for asked_at, saved in ((10, 10), (5, 15), (20, 35)):  # between epochs, in the midst of one, in the last
        asked = {**environment, "TEST_ASKED_AT": str(asked_at)}
        ended = launch.run("changing.py", str(tmp_path / "backup"), environment=asked)
        assert (ended.code, ended.exit_line) == (42, f"dtj: asked to leave; saved step {saved}"), ended.output
        assert "BackupAndRestore is left out" in ended.output
    assert launch.run("changing.py", str(tmp_path / "backup"), environment=environment).said == undisturbed.said


@pytest.mark.matrix
def test_a_step_of_ones_own_goes_on_with_the_same_bits_and_with_every_object_of_its_state(tmp_path):
    undisturbed = launch.run("own_state.py").said
    assert undisturbed["counted"] == 20
    environment = launch.checkpoint(tmp_path / "state")
    ended = launch.run("own_state.py", environment={**environment, "TEST_ASKED_AT": "13"})
    assert (ended.code, ended.exit_line) == (42, "dtj: asked to leave; saved step 13"), ended.output
    assert launch.run("own_state.py", environment=environment).said == undisturbed


def test_a_learning_rate_scaled_for_two_devices_is_saved_and_goes_on_on_one(tmp_path):
    environment = {**launch.checkpoint(tmp_path, everySteps=3), "TEST_REPLICA_BATCH": "12"}
    ended = launch.run("resume.py", environment={**environment, "TEST_DIE_AT": "11", "DTJ_LOGICAL_DEVICES": "2"})
    assert ended.code == -9, ended.output
    alone = launch.run("resume.py", environment=environment)
    assert alone.code == 0, alone.output
    resumed = alone.said["resumed_from"]
    assert resumed in {6, 9}  # the save after nine steps need not have been complete
    assert alone.said["step"] == resumed + (4 * 240 - resumed * 24) // 12  # the rest of four epochs, in batches of 12


def test_a_nan_loss_ends_the_job_at_its_step():
    ended = launch.run("resume.py", environment={"TEST_NAN": "1"})
    assert ended.code == 1
    assert "the loss is NaN at step " in ended.output


def test_what_does_not_fit_the_checkpoint_is_refused(tmp_path):
    environment = launch.checkpoint(tmp_path, everySteps=3)
    launch.run("resume.py", environment={**environment, "TEST_DIE_AT": "7"})
    other_model = launch.run("resume.py", environment={**environment, "TEST_FEATURES": "9"})
    assert other_model.code == 1
    assert "is of another model" in other_model.output
    other_seed = launch.run("resume.py", environment={**environment, "TEST_SEED": "2"})
    assert "was made with seed 1 and this job has 2" in other_seed.output
    other_batch = launch.run("resume.py", environment={**environment, "TEST_BATCH": "12"})
    assert "was made with batch_size 24 and this job has 12" in other_batch.output


def test_a_second_training_begins_at_its_own_first_step_with_and_without_checkpoints(tmp_path):
    assert launch.run("again.py").said == {"steps": [2, 3]}
    assert launch.run("again.py", environment=launch.checkpoint(tmp_path)).said == {"steps": [2, 3]}


def test_a_batch_of_a_pipeline_that_does_not_divide_is_refused():
    ended = launch.run("resume.py", environment={"TEST_BATCH": "25", "DTJ_LOGICAL_DEVICES": "2"})
    assert ended.code == 1
    assert "a batch_size of 25 from a dtj.data.Pipeline cannot be divided among 2 replicas" in ended.output


def test_an_older_attempt_writes_no_more(tmp_path):
    environment = launch.checkpoint(tmp_path, everySteps=3)
    (tmp_path / "owner.json").write_text(json.dumps({"uid": "u", "attempt": 2}))
    ended = launch.run("resume.py", environment={**environment, "DTJ_UID": "u", "DTJ_ATTEMPT": "1"})
    assert ended.code == 75
    assert ended.exit_line == f"dtj: attempt 2 of this job owns {tmp_path}; attempt 1 writes no more"
