"""A job that was killed, or asked to leave, goes on as if nothing had happened."""

import json
import random

import numpy as np
import pytest

from tests.trainer.loop import launch

pytestmark = pytest.mark.trainer


@pytest.fixture(scope="module")
def undisturbed():
    ended = launch.run("resume.py")
    assert ended.code == 0, ended.output
    return ended.said


def test_killed_twice_at_random_steps_it_ends_with_the_same_bits(undisturbed, tmp_path):
    environment = launch.checkpoint(tmp_path, everySteps=3)
    first, second = random.randint(4, 15), random.randint(4, 15)
    for die_at in (first, second):
        ended = launch.run("resume.py", environment={**environment, "TEST_DIE_AT": str(die_at)})
        assert ended.code == 137, ended.output
    said = launch.run("resume.py", environment=environment).said
    died_at = first - 1 + second - 1  # death comes after a step and before its save; it may cut off one save each time
    assert died_at - 9 < said["resumed_from"] <= died_at
    assert said["resumed_from"] % 3 == 0
    assert said["step"] == 40
    assert said["digest"] == undisturbed["digest"]
    note = json.loads((tmp_path / "done.json").read_text())
    assert note["step"] == 40
    again = launch.run("resume.py", environment=environment)
    assert again.code == 0
    assert again.last_word == "dtj: finished at step 40 already"


def test_two_workers_resume_and_end_as_undisturbed_ones(tmp_path):
    undisturbed = launch.run_workers(2, "resume.py")
    assert [each.code for each in undisturbed] == [0, 0], undisturbed[0].output
    environment = launch.checkpoint(tmp_path, everySteps=3)
    processes = launch.start_workers(2, "resume.py", environment={**environment, "TEST_DIE_AT": "11"})
    killed = [launch.finish(process) for process in processes]
    assert all(each.code in {137, 75} for each in killed), killed[0].output + killed[1].output
    resumed = launch.run_workers(2, "resume.py", environment=environment)
    for worker in resumed:
        assert worker.said["resumed_from"] in {6, 9}  # the last save may have been cut off
        assert worker.said["step"] == 40
        np.testing.assert_allclose(worker.said["weights"], undisturbed[0].said["weights"], rtol=1e-4, atol=1e-5)


def test_one_worker_asked_to_leave_makes_both_save_the_same_step_and_end_with_42(tmp_path):
    environment = launch.checkpoint(tmp_path)
    addresses = launch.free_ports(2)
    processes = []
    for index in range(2):
        task = {"cluster": {"worker": [f"127.0.0.1:{port}" for port in addresses]}}
        config = json.dumps({**task, "task": {"type": "worker", "index": index}})
        leaves = {"TEST_LEAVE_AT": "5"} if index == 1 else {"TEST_LEAVE_AT": "999"}
        processes.append(launch.start("resume.py", environment={**environment, **leaves, "TF_CONFIG": config}))
    ended = [launch.finish(process) for process in processes]
    assert [each.code for each in ended] == [42, 42], ended[0].output + ended[1].output
    assert {each.last_word for each in ended} == {"dtj: asked to leave; saved step 6"}
    assert (tmp_path / "ckpt-6.index").exists()


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
    assert "was made with global_batch_size 24 and this job has 12" in other_batch.output


def test_a_batch_that_does_not_divide_is_refused():
    ended = launch.run("resume.py", environment={"TEST_BATCH": "25", "DTJ_LOGICAL_DEVICES": "2"})
    assert ended.code == 1
    assert "a global batch of 25 cannot be divided among 2 replicas" in ended.output


def test_an_older_attempt_writes_no_more(tmp_path):
    environment = launch.checkpoint(tmp_path, everySteps=3)
    (tmp_path / "owner.json").write_text(json.dumps({"uid": "u", "attempt": 2}))
    ended = launch.run("resume.py", environment={**environment, "DTJ_UID": "u", "DTJ_ATTEMPT": "1"})
    assert ended.code == 75
    assert ended.last_word == f"dtj: attempt 2 of this job owns {tmp_path}; attempt 1 writes no more"
