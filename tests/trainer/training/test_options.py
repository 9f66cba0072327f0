"""What dtj.fit can do beside training."""

import signal
from importlib.util import find_spec

import numpy as np
import pytest

from tests.trainer.training import launch

pytestmark = pytest.mark.trainer


@pytest.mark.parametrize("devices", [1, 2])
def test_the_options_of_fit_do_what_they_say(devices, tmp_path):
    ended = launch.run("options.py", str(tmp_path), environment={"DTJ_LOGICAL_DEVICES": str(devices)})
    assert ended.code == 0, ended.output
    said = ended.said
    assert said["replicas"] == devices
    assert said["forked"] == -signal.SIGTERM
    assert said["export_differs"] < 1e-5
    assert said["hot_file"] < 0.8
    for checkpoint in ("hot_directory", "hot_prefix", "hot_job", "hot_job_prefix"):
        assert said[checkpoint] == pytest.approx(said["hot_file"], rel=1e-4)
    for name in ("file", "directory", "prefix", "job", "job_prefix"):
        assert said[f"rate_and_steps_{name}"] == [pytest.approx(0.003), 1], name
    for refused, path in (
        ("short", "short/ckpt"),
        ("no_weights", "none.weights.h5"),
        ("wider", "job"),
        ("deeper", "job/ckpt-40"),
    ):
        assert said[refused].startswith(f"initial_weights {tmp_path}/{path} cannot be used (")
        assert said[refused].endswith("); give weights or a checkpoint of this model")
    assert said["bfloat16"]["policy"] == "mixed_bfloat16"
    assert said["bfloat16"]["optimizer"] == "Adam"
    assert said["float16"]["optimizer"] == "LossScaleOptimizer"
    assert said["bfloat16"]["loss"] == pytest.approx(said["float16"]["loss"], rel=0.25)
    assert said["float16"]["loss"] < 0.2
    rates = said["rates"]
    assert len(rates) == 12
    assert rates[-1] == pytest.approx(0.01 * devices)
    assert rates[0] == pytest.approx(0.01 * (1 + (devices - 1) / 10))
    assert rates == sorted(rates)
    assert said["rates_of_steps"] == rates
    assert len(said["rates_of_one_epoch"]) == 20 // devices
    assert said["rates_of_one_epoch"][-1] == pytest.approx(0.01 * {1: 1, 2: 1 + 10 / 50}[devices])
    assert said["rates_by_steps"][-1] == pytest.approx(0.01 * (1 + (devices - 1) * 2 / 500))
    assert said["stopped"] == 3
    assert said["seen"] == [0, 1, 2, 3]
    assert said["files"] == ["at-2.weights.h5", "at-4.weights.h5"]
    assert said["endless"] < 0.05  # of the last steps, not of all
    assert said["ends"] == {"longer": [0, 5], "shorter": [0, 1, 25]}
    assert said["uneven"] == 16
    assert said["odd"] == 8
    differs = (
        "PreflightFailed: per_replica_batch_size=12 makes global batches of 12, and those of the tf.data.Dataset have "
        "24; leave it out, or batch the Dataset so"
    )
    assert said["sized"] == {1: differs, 2: 8}[devices]
    assert said["linear"] == said["odd"]
    assert said["too_short"].startswith("PreflightFailed: the data is empty or ended before the training did; ")
    assert said["single"].startswith("PreflightFailed: the dataset is not batched; ")
    refused = "dtj.train got validation_data= and no way to do it; give validation_step=fn(state, batch)"
    assert said["no_validation_step"] == [refused, 0]
    assert said["tuned"] == [False, True, False]
    assert said["vector"] == "the train step returned 'loss' of shape (3,); reduce it to a scalar"


@pytest.mark.parametrize("devices", [1, 2])
def test_arguments_of_compile_act_or_are_refused_by_name(devices):
    said = launch.run("compile_arguments.py", environment={"DTJ_LOGICAL_DEVICES": str(devices)}).said
    assert said["nothing"] <= 1e-5
    eager = [said[name] for name in said if name.startswith("run_eagerly")]
    assert len(eager) == 4
    if devices == 1:
        assert max([said["jit_compile"], *eager]) <= 1e-5
    else:
        sentence = (
            "the model was compiled with run_eagerly=True, which works on one device alone, and not under Mirrored "
        )
        assert all(each.startswith(sentence) for each in eager)
        assert said["jit_compile"].startswith(
            "the model was compiled with jit_compile=True, which does not work under "
        )


def test_a_model_of_keras_2_is_refused_by_name_and_trained_by_a_step_of_ones_own(keras_2):
    said = launch.run("keras_2.py", str(keras_2)).said
    assert said["model"] == said["function"]
    assert said["model"].startswith("UserError: dtj.fit trains models of Keras 3, and Sequential is one of tf_keras ")
    assert said["loss"] < 0.1


def test_options_do_together_what_each_does_alone(tmp_path):
    ended = launch.run("together.py", str(tmp_path), environment={"DTJ_LOGICAL_DEVICES": "2"})
    assert ended.code == 0, ended.output
    said = ended.said
    assert said["both_ways"] == [
        "bfloat16",
        "bfloat16",
    ]  # Keras makes both from a configuration
    assert said["policies"] == ["mixed_float16", "float32"]  # the second one was asked for
    assert said["built"] == pytest.approx(said["made"], rel=1e-3)
    assert said["clipped"] == pytest.approx(said["clipped_by_keras"], rel=0.01)
    assert said["average_differs"] == 0
    assert said["single"] < 2
    assert said["own_step"][0] == pytest.approx(said["own_step"][1], rel=1e-5)  # a step that calls Keras' own
    warmer = [1, 1.4 / 1.2, 1.6 / 1.2]  # goes on from what the callback has set
    assert said["rates"] == pytest.approx([0.02 * by / 2**epoch for epoch, by in enumerate(warmer)], rel=1e-3)
    assert said["loaded"] == "SGD"


def test_first_values_are_the_same_each_time_unless_the_program_seeds_them_itself():
    first, again, own, own_again, other = (launch.start("seeds.py", *seed) for seed in ("", "", "7", "7", "8"))
    told = [launch.finish(born).said["first"] for born in (first, again, own, own_again, other)]
    assert told[0] == told[1]
    assert told[2] == told[3]
    assert len({told[0], told[2], told[4]}) == 3


def test_a_state_is_built_before_the_first_step_or_refused():
    one, two = (launch.run("unbuilt.py", environment={"DTJ_LOGICAL_DEVICES": str(count)}).said for count in (1, 2))
    refused = "UserError: a Keras model in `state` makes its variables in the first step, "
    assert one["lazy"].startswith(refused)
    assert two["lazy"].startswith(refused)
    assert two["lazy_optimizer"] == pytest.approx(one["lazy_optimizer"], rel=1e-4)
    assert two["no_trackable"] == two["lazy_optimizer"]
    assert two["two_optimizers"].startswith("UserError: several replicas cannot build an optimizer in their first step")


@pytest.fixture(scope="module")
def habits():
    return launch.run("habits.py").said


@pytest.mark.matrix
def test_a_metric_of_each_class_is_an_array_for_callbacks_and_their_mean_for_all_else(habits):
    ours, theirs, result = habits["each_class"].values()
    assert ours.keys() == theirs.keys() == result.keys() == {"loss", "f1_score", "val_loss", "val_f1_score"}
    for name, value in theirs.items():
        assert ours[name] == pytest.approx(value, rel=1e-5)
        assert result[name] == pytest.approx(np.mean(value), rel=1e-5)


@pytest.mark.matrix
def test_a_metric_of_several_results_is_named_by_them_as_in_keras(habits):
    ours, theirs, result = habits["several"].values()
    assert theirs.keys() == {"loss", "mean", "count", "val_loss", "val_mean", "val_count"}
    assert result == ours == pytest.approx(theirs, rel=1e-5)


@pytest.mark.matrix
def test_what_keras_takes_and_dtj_fit_does_not_is_refused_before_the_first_step(habits):
    beginnings = {
        "nothing": "x is missing; give arrays, ",
        "iterator": "x is a list_iterator, which dtj.fit does not take; ",
        "target_twice": "y cannot be given beside x, a _BatchDataset, which holds it itself",
        "weights_twice": "sample_weight cannot be given beside x, a _BatchDataset, which holds it itself",
        "lengths": "x, y and sample_weight have to be of the same examples, and x has 96, y has 5",
        "both_weights": "class_weight and sample_weight cannot be given together; ",
        "split_of_batches": "validation_split is for arrays, and x is a _BatchDataset; give validation_data=",
        "split_too_small": "validation_split=0.999 of 96 examples leaves none for training or for validation; ",
        "both_sizes": "batch_size and per_replica_batch_size are given; give one of them",
        "endless": "validation_data never ends; give validation_steps=, or a Dataset without repeat()",
        "endless_function": "validation_data never ends; give validation_steps=, or a Dataset without repeat()",
    }
    for name, beginning in beginnings.items():
        assert habits[name].startswith(f"PreflightFailed: {beginning}"), name
    assert habits["empty"] == "PreflightFailed: the validation data is empty; check its files and filters"
    assert habits["own_test"] == habits["no_validation"] == habits["no_callbacks"] == 4
    needs = "PreflightFailed: Keras' TensorBoard callback needs the package tensorboard, which is not installed here; "
    assert find_spec("tensorboard") is not None or habits["tensorboard"].startswith(needs)
    assert habits["steps"] == []


def test_a_validation_that_finds_no_example_tells_no_score(habits):
    assert habits["filtered"] == habits["filtered_batches"] == habits["empty"]
