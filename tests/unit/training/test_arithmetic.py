"""The pure parts of a training: strategy, schedule, steps of a call, learning rate."""

import itertools
import json
from typing import Any

import pytest

from dtj_trainer.cluster import accelerators
from dtj_trainer.cluster.environment import Environment, read
from dtj_trainer.cluster.tf_config import read_tf_config
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.strategy import parameter_server, tpu
from dtj_trainer.strategy.choose import choose
from dtj_trainer.training.keras.learning_rate import check_scaling, factor
from dtj_trainer.training.schedule import Schedule
from dtj_trainer.training.steps.step_runner import GROWTH, LARGEST, TARGET_SECONDS, StepsPerExecutionTuner


def environment(strategy: str = "", role: str = "worker", index: int = 0, **cluster: int) -> Environment:
    addresses = {name: [f"{name}-{i}:2222" for i in range(count)] for name, count in cluster.items()}
    told = {"DTJ_STRATEGY": json.dumps({"type": strategy})} if strategy else {}
    if addresses:
        told["TF_CONFIG"] = json.dumps({"cluster": addresses, "task": {"type": role, "index": index}})
    return read(told)


@pytest.mark.parametrize(
    ("told", "devices", "chosen"),
    [
        (environment(), 1, "OneDevice"),
        (environment(), 4, "Mirrored"),
        (environment(worker=1), 1, "OneDevice"),
        (environment(worker=3), 4, "MultiWorkerMirrored"),
        (environment(chief=1, worker=1), 1, "MultiWorkerMirrored"),
        (environment(role="chief", chief=1, worker=2, ps=1), 1, "ParameterServer"),
        (environment("Auto", worker=2), 1, "MultiWorkerMirrored"),
        (environment("CentralStorage"), 2, "CentralStorage"),
        (environment("None", worker=2), 1, "None"),
        (environment("TPU"), 1, "TPU"),
        (environment("MultiWorkerMirrored", role="evaluator", worker=2), 2, "OneDevice"),
    ],
)
def test_the_strategy_follows_from_what_was_said_then_from_roles_then_from_devices(told, devices, chosen):
    assert choose(told, devices).type == chosen


def test_an_unknown_strategy_is_refused_with_the_known_ones():
    with pytest.raises(PreflightFailed, match="strategy 'Horovod' is unknown; use one of Auto, OneDevice"):
        choose(environment("Horovod"), 1)


@pytest.mark.parametrize("missing", ["ps", "worker", "chief"])
def test_parameter_servers_need_all_three_roles(missing):
    roles = {role: 1 for role in ("chief", "worker", "ps") if role != missing}
    with pytest.raises(PreflightFailed, match=f"the cluster has no {missing}"):
        parameter_server.check(environment("ParameterServer", next(iter(roles)), **roles))


def test_a_tpu_is_found_by_name_or_by_its_chips_and_never_guessed(tmp_path, monkeypatch):
    monkeypatch.setattr(accelerators, "DEVICES", tmp_path)
    alone = read_tf_config({})
    assert tpu.address({}, alone) is None
    assert tpu.address({"TPU_NAME": "node-1"}, alone) == "node-1"
    (tmp_path / "vfio").mkdir()
    (tmp_path / "vfio" / "0").touch()
    assert tpu.address({}, alone) is None
    assert tpu.address({"TPU_WORKER_ID": "0"}, alone) == "local"
    (tmp_path / "accel0").touch()
    assert tpu.address({}, alone) == "local"


def test_a_chief_finds_the_hosts_of_a_slice_in_its_cluster():
    cluster = {"chief": ["c:2222"], "worker": ["a:2222", "b:2222"]}
    told = {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "chief", "index": 0}})}
    assert tpu.address({}, read_tf_config(told)) == "grpc://a:2222,grpc://b:2222"
    assert tpu.address({"TPU_NAME": "node-1"}, read_tf_config(told)) == "node-1"


@pytest.mark.parametrize(
    ("epochs", "steps", "per_epoch", "known", "expected"),
    [
        (3, None, None, 10, (30, 10)),
        (3, None, 4, 10, (12, 4)),
        (3, 7, None, 10, (7, 10)),
        (3, 70, None, 10, (30, 10)),
        (None, 50, None, 10, (50, 10)),
        (None, 50, None, None, (50, None)),
        (None, None, None, 10, (10, 10)),
    ],
)
def test_epochs_and_steps_end_a_training_whichever_comes_first(epochs, steps, per_epoch, known, expected):
    found = Schedule.of(epochs, steps, per_epoch, known)
    assert (found.total, found.batches) == expected


def test_a_length_that_cannot_be_is_refused():
    for wrong in ({"epochs": -1}, {"steps": 0}, {"steps_per_epoch": -1}, {"accumulate": 0}, {"initial_epoch": -1}):
        arguments: dict[str, Any] = {"epochs": None, "steps": None, "steps_per_epoch": None, **wrong}
        with pytest.raises(PreflightFailed, match="has to be at least"):
            Schedule.of(batches_per_pass=5, **arguments)
    with pytest.raises(PreflightFailed, match="fewer examples than one global batch"):
        Schedule.of(1, None, None, 0)
    with pytest.raises(PreflightFailed, match="size of the data is not known"):
        Schedule.of(1, None, None, None)


def test_epochs_end_where_they_should_and_the_last_one_with_the_training():
    ends = Schedule.of(None, 25, 10, None)
    assert [ends.next_end(step) for step in (0, 9, 10, 19, 20, 24)] == [10, 10, 20, 20, 25, 25]
    assert [step for step in range(26) if ends.ends_epoch(step)] == [10, 20, 25]
    assert [ends.epoch(step) for step in (0, 9, 10, 24)] == [0, 0, 1, 2]
    assert ends.last_epoch == 3
    assert Schedule.of(None, 25, None, None).ends_epoch(25)


def test_the_last_update_of_an_epoch_takes_the_batches_that_are_left():
    found = Schedule.of(2, None, None, 7, accumulate=3, passes_end=True)
    assert found.total == 6
    assert [found.batches_of(step) for step in range(6)] == [3, 3, 1, 3, 3, 1]
    assert [found.batches_in(0, steps) for steps in (1, 2, 3)] == [3, 6, 7]
    assert [step for step in range(7) if found.ends_epoch(step)] == [3, 6]


@pytest.mark.parametrize(
    ("batches", "steps_per_epoch", "epochs", "lengths"),
    [(6, 4, 5, [4, 2, 4, 2, 4]), (6, 3, 3, [3, 3, 3]), (6, 10, 2, [6, 6]), (5, 4, 3, [4, 1, 4])],
)
def test_an_epoch_ends_short_where_the_data_ends_and_the_next_begins_from_the_start(
    batches, steps_per_epoch, epochs, lengths
):
    found = Schedule.of(epochs, None, steps_per_epoch, batches, passes_end=True)
    ends = [step for step in range(1, found.total + 1) if found.ends_epoch(step)]
    assert [end - start for start, end in itertools.pairwise([0, *ends])] == lengths
    assert [found.epoch(end - 1) for end in ends] == list(range(epochs))
    assert found.last_epoch == epochs


def test_epochs_are_counted_from_the_initial_one_to_the_last_index_as_in_keras():
    found = Schedule.of(5, None, None, 10, initial_epoch=3)
    assert (found.total, found.epoch(0), found.epoch(19), found.last_epoch) == (20, 3, 4, 5)
    assert Schedule.of(3, None, None, 10, initial_epoch=3).total == 0
    assert Schedule.of(0, None, None, 10).total == 0


def test_after_a_change_of_the_batch_the_epochs_left_are_those_of_the_examples():
    # Thirty updates of half the present batch: one and a half epochs.
    halved = Schedule.of(4, None, None, 10).after(30, 15)
    assert [halved.epoch(30), halved.step_in_epoch(30), halved.next_end(30), halved.total] == [1, 5, 35, 55]
    assert [step for step in range(30, 56) if halved.ends_epoch(step)] == [35, 45, 55]
    assert halved.last_epoch == 4
    doubled = Schedule.of(4, 20, None, 10).after(5, 10)
    assert [doubled.epoch(5), doubled.step_in_epoch(5), doubled.next_end(5), doubled.total] == [1, 0, 15, 20]


def test_calls_grow_until_they_last_the_target_and_shrink_at_once():
    pace = StepsPerExecutionTuner()
    pace.learn(0.0)
    assert pace.count == 1
    pace.learn(1e-6)
    assert pace.count == GROWTH
    for _ in range(10):
        pace.learn(1e-6)
    assert pace.count == LARGEST
    pace.learn(0.01)
    assert pace.count == int(TARGET_SECONDS / 0.01)
    pace.learn(10.0)
    assert pace.count == 1


def test_a_call_never_leaves_a_worker_without_a_step():
    pace = StepsPerExecutionTuner(4)
    pace.learn(10.0)
    assert pace.count == 4


def test_the_learning_rate_grows_with_the_global_batch_alone():
    assert factor("auto", 8, per_replica=True, total=256, base=None) == 8.0
    assert factor("auto", 8, per_replica=False, total=256, base=None) == 1.0
    assert factor("none", 8, per_replica=True, total=256, base=None) == 1.0
    assert factor("linear", 8, per_replica=False, total=256, base=64) == 4.0
    with pytest.raises(PreflightFailed, match="base_batch_size="):
        factor("linear", 8, per_replica=False, total=256, base=None)
    with pytest.raises(PreflightFailed, match="batch_size="):
        factor("linear", 8, per_replica=False, total=None, base=64)
    with pytest.raises(PreflightFailed, match="'sqrt' is unknown"):
        check_scaling("sqrt")
