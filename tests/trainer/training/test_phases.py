"""Several trainings in one program: each goes on where it was, and those that are finished are passed through."""

import json
from pathlib import Path

import pytest

from dtj_trainer.storage.folder import read_json
from dtj_trainer.storage.open import open_folder
from tests.trainer.training import launch

pytestmark = pytest.mark.trainer


@pytest.fixture(scope="module")
def undisturbed():
    ended = launch.run("phases.py")
    assert ended.code == 0, ended.output
    return ended.said


@pytest.mark.parametrize(
    ("die_at", "finished", "calls"),
    [
        ("1:8", 0, ["begin 1", "end 1", "begin 2", "end 2", "begin 3", "end 3"]),
        ("2:8", 1, ["begin 2", "end 2", "begin 3", "end 3"]),
        ("3:5", 2, ["begin 3", "end 3"]),
    ],
)
def test_killed_in_any_training_a_program_passes_through_those_that_are_finished(
    die_at, finished, calls, undisturbed, tmp_path
):
    environment = launch.checkpoint(tmp_path, everySteps=3, keep=1)
    killed = launch.run("phases.py", environment={**environment, "TEST_DIE_AT": die_at})
    assert killed.code == -9, killed.output
    ended = launch.run("phases.py", environment=environment)
    assert ended.code == 0, ended.output
    said = ended.said
    assert said["calls"] == calls
    assert said["resumed_from"][:finished] == [12, 12, 8][:finished]
    assert (said["resumed_from"][finished] or 0) % 3 == 0
    for same in ("steps", "iterations", "random", "digest"):
        assert said[same] == undisturbed[same], same
    assert said["losses"] == pytest.approx(undisturbed["losses"])
    again = launch.run("phases.py", environment=environment)
    assert (again.said["calls"], again.said["resumed_from"]) == ([], [12, 12, 8])
    for same in ("iterations", "random", "digest"):
        assert again.said[same] == undisturbed[same], same


def test_each_training_has_a_directory_of_its_own(tmp_path):
    ended = launch.run("phases.py", environment=launch.checkpoint(tmp_path, keep=1))
    assert ended.code == 0, ended.output
    assert (tmp_path / "ckpt-12.index").exists()
    assert (tmp_path / "trainings" / "2" / "ckpt-12.index").exists()
    assert (tmp_path / "trainings" / "own" / "ckpt-8.index").exists()
    records = (read_json(open_folder(str(tmp_path)), "trainings.json") or {})["trainings"]
    assert [(each["name"], each["final_step"]) for each in records] == [(None, 12), (None, 12), ("own", 8)]


def test_a_second_fit_goes_on_with_the_optimizer_unless_the_model_is_compiled_again(undisturbed):
    assert undisturbed["steps"] == [12, 12, 8]
    assert undisturbed["iterations"] == 24
    ended = launch.run("phases.py", environment={"TEST_RECOMPILE": "1"})
    assert ended.said["iterations"] == 12


def test_asked_to_leave_before_the_second_training_it_says_that_the_first_is_saved(tmp_path):
    asked = {"TEST_ASKED_TO_LEAVE": "1"}
    ended = launch.run("phases.py", environment={**asked, **launch.checkpoint(tmp_path)})
    assert (ended.code, ended.exit_line) == (
        42,
        "dtj: asked to leave before step 1; saved step 12 of the training before",
    ), ended.output
    assert launch.run("phases.py", environment=asked).code == 143


def test_two_workers_of_which_one_is_killed_in_the_second_training_go_on_in_the_second(tmp_path):
    undisturbed = launch.run_workers(2, "phases.py")
    environment = launch.checkpoint(tmp_path, everySteps=3)
    doomed = {**environment, "TEST_DIE_AT": "2:8", "TEST_VICTIM": "1"}
    assert [each.code for each in launch.run_workers(2, "phases.py", environment=doomed)] == [75, -9]
    for ended, before in zip(launch.run_workers(2, "phases.py", environment=environment), undisturbed, strict=True):
        assert ended.code == 0, ended.output
        assert ended.said["resumed_from"][0] == 12
        assert ended.said["resumed_from"][1] in {3, 6}
        assert ended.said["calls"] == ["begin 2", "end 2", "begin 3", "end 3"]
        assert ended.said["losses"] == pytest.approx(before.said["losses"], rel=1e-3)
        assert ended.said["iterations"] == 24


@pytest.mark.parametrize(
    ("first", "then", "sentence"),
    [
        ("-,-,own", "-,tune,own", "training 2 was unnamed in {} and is named 'tune' now; make the same calls in the "),
        ("head,tune", "tune,head", "training 1 was named 'head' in {} and is named 'tune' now; make the same calls "),
        ("head,tune", "head,-,tune", "training 2 was named 'tune' in {} and is unnamed now; make the same calls in "),
        ("head", "head,-,head", "two trainings of this program have the name 'head', numbers 1 and 3; give each its "),
        ("head", "2", "'2' cannot be the name of a training; use letters, digits, '.', '_' and '-', and more than "),
        ("head", "a/b", "'a/b' cannot be the name of a training; use letters, digits, '.', '_' and '-', and more "),
    ],
)
def test_a_name_given_twice_or_another_order_than_before_is_refused(first, then, sentence, tmp_path):
    environment = launch.checkpoint(tmp_path)
    assert launch.run("phases.py", environment={**environment, "TEST_NAMES": first}).code == 0
    ended = launch.run("phases.py", environment={**environment, "TEST_NAMES": then})
    assert ended.code == 1, ended.output
    assert ended.exit_line.startswith(f"dtj: {sentence.format(tmp_path)}")


def test_another_order_is_refused_on_every_worker(tmp_path):
    environment = launch.checkpoint(tmp_path)
    assert launch.run("phases.py", environment={**environment, "TEST_NAMES": "head"}).code == 0
    ended = launch.run_workers(2, "phases.py", environment={**environment, "TEST_NAMES": "other"})
    assert [each.code for each in ended] == [1, 1], ended[0].output + ended[1].output
    assert len({each.exit_line for each in ended}) == 1


def test_another_job_on_the_same_directory_trains_on_from_the_last_checkpoints(tmp_path):
    environment = {**launch.checkpoint(tmp_path), "TEST_NAMES": "-"}
    assert launch.run("phases.py", environment={**environment, "DTJ_UID": "one"}).code == 0
    other = launch.run("phases.py", environment={**environment, "TEST_NAMES": "head", "DTJ_UID": "other"})
    assert other.code == 0, other.output
    assert other.said["calls"] == ["begin 1", "end 1"]
    assert json.loads((tmp_path / "trainings.json").read_text())["trainings"][0]["name"] == "head"
    assert Path(tmp_path / "trainings" / "head").is_dir()


def test_the_evaluator_evaluates_the_checkpoints_of_one_training_after_the_other(tmp_path):
    environment = launch.checkpoint(tmp_path)
    alone = {**environment, "TF_CONFIG": '{"cluster": {}, "task": {"type": "evaluator", "index": 0}}'}
    beside = launch.start("again.py", environment=alone)
    assert launch.run("again.py", environment=environment).code == 0
    for evaluated in (launch.finish(beside), launch.run("again.py", environment=alone)):
        assert evaluated.code == 0, evaluated.output
        assert evaluated.said == {"steps": [2, 3]}
    assert "dtj: evaluated step 2  " not in evaluated.output
    for logs in (tmp_path / "logs", tmp_path / "logs" / "trainings" / "2"):
        assert list((logs / "eval").glob("events.out.*"))


@pytest.mark.parametrize(("count", "environment"), [(1, {"DTJ_LOGICAL_DEVICES": "2"}), (2, {})])
def test_other_models_and_functions_that_share_layers_see_each_training(count, environment):
    wanted = launch.run("shared_layers.py", "keras").said
    for ended in launch.run_workers(count, "shared_layers.py", "dtj", environment=environment):
        assert ended.code == 0, ended.output
        for when, numbers in wanted.items():
            assert ended.said[when] == pytest.approx(numbers, rel=1e-3, abs=1e-5), when
