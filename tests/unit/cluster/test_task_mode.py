"""The cluster that a task is told of, and what it does in it."""

import json

import pytest

from dtj_trainer.cluster import environment
from dtj_trainer.cluster.task_mode import TaskMode, peers, slice_environment, task_mode
from dtj_trainer.cluster.tf_config import Task, read_tf_config
from dtj_trainer.errors import PreflightFailed

TWO = {"worker": ["a:2222", "b:2222"]}


def tf_config(role: str, index: int, cluster: dict[str, list[str]] = TWO) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})}


def test_the_leader_is_the_chief_or_else_worker_0():
    assert read_tf_config(tf_config("worker", 1)).leader == Task("worker", 0)
    both = {"chief": ["c:1"], "worker": ["a:1"]}
    assert read_tf_config(tf_config("worker", 0, both)).leader == Task("chief", 0)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"cluster": 3}', '{"cluster": {"worker": ["a"]}, "task": {"type": "worker", "index": 0}}',
     '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 4}}',
     '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": "a"}}', '{"cluster": {"worker": "a:1"}}',
     '{"cluster": {"worker": ["a:1"]}, "task": {"type": "boss", "index": 0}}'],
)  # fmt: skip
def test_a_broken_tf_config_is_one_sentence(text: str):
    with pytest.raises(PreflightFailed, match=r"TF_CONFIG.*; "):
        read_tf_config({"TF_CONFIG": text})


def mode(variables: dict[str, str]) -> TaskMode:
    return task_mode(environment.read(variables))


def test_modes_by_strategy_and_role():
    cluster = {"chief": ["c:1"], "worker": ["w:1"], "ps": ["p:1"]}
    ps_job = {"DTJ_STRATEGY": '{"type": "ParameterServer"}'}
    assert mode({**tf_config("chief", 0, cluster), **ps_job}) is TaskMode.COORDINATOR
    assert mode({**tf_config("worker", 0, cluster), **ps_job}) is TaskMode.SERVER
    assert mode(tf_config("worker", 1)) is TaskMode.COLLECTIVE
    assert mode(tf_config("worker", 0, {"worker": ["a:1"]})) is TaskMode.SINGLE
    assert mode(tf_config("evaluator", 0)) is TaskMode.SINGLE
    assert mode({}) is TaskMode.SINGLE


def test_over_several_hosts_of_a_tpu_slice_the_chief_runs_the_program_and_the_workers_serve():
    on_tpus = {"DTJ_STRATEGY": '{"type": "TPU"}'}
    several = {"chief": ["c:1"], "worker": ["a:1", "b:1"]}

    def told(role: str, cluster: dict[str, list[str]], index: int = 0) -> environment.Environment:
        return environment.read({**tf_config(role, index, cluster), **on_tpus})

    assert task_mode(told("chief", several)) is TaskMode.COORDINATOR
    assert peers(told("chief", several).tf_config, TaskMode.COORDINATOR) == (Task("worker", 0), Task("worker", 1))
    assert task_mode(told("worker", several, 1)) is TaskMode.SERVER
    assert task_mode(told("evaluator", {**several, "evaluator": ["e:1"]})) is TaskMode.SINGLE
    assert task_mode(told("chief", {"chief": ["c:1"]})) is TaskMode.SINGLE
    assert task_mode(told("worker", {"worker": ["a:1"]})) is TaskMode.SINGLE
    served = slice_environment(told("worker", several, 1), TaskMode.SERVER)
    assert served == {"TPU_WORKER_ID": "1", "TPU_WORKER_HOSTNAMES": "a,b"}
    assert slice_environment(told("chief", several), TaskMode.COORDINATOR) == {}
    with pytest.raises(PreflightFailed, match=r"TPU over 2 workers needs a chief.*; add spec\.replicaSpecs\.chief"):
        task_mode(told("worker", {"worker": ["a:1", "b:1"]}))


def test_peers_are_asked_on_the_port_that_was_given_for_their_address():
    told = environment.read({**tf_config("worker", 0), "DTJ_PEER_PORTS": '{"b:2222": 7}'})
    assert told.http_endpoints(9401) == {Task("worker", 1): ("b", 7)}


def test_a_checkpoint_setting_of_the_wrong_kind_is_one_sentence():
    with pytest.raises(PreflightFailed, match=r"DTJ_CHECKPOINT holds .*'soon'.*; "):
        environment.read({"DTJ_CHECKPOINT": '{"directory": "/ckpt", "everySteps": "soon"}'})
