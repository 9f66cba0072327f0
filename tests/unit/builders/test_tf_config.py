"""TF_CONFIG for every role, strategy and size, and what TensorFlow itself makes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from dtj_operator.api.enums import Role
from dtj_operator.api.job import Job
from dtj_operator.builders.pod import build_pod
from dtj_operator.builders.tf_config import has_cluster, tf_config
from tests.support.job_builder import job, template


def at(role: str, index: int, *, port: int = 2222, domain: str = "") -> str:
    return f"train-{role}-{index}.train.team.svc{domain}:{port}"


GOLDEN: dict[str, tuple[dict[str, int], dict[str, list[str]]]] = {
    "two workers": (
        {"worker": 2},
        {"worker": [at("worker", 0), at("worker", 1)]},
    ),
    "a chief and two workers": (
        {"chief": 1, "worker": 2},
        {"chief": [at("chief", 0)], "worker": [at("worker", 0), at("worker", 1)]},
    ),
    "a chief, workers and ps": (
        {"chief": 1, "worker": 2, "ps": 2},
        {
            "chief": [at("chief", 0)],
            "worker": [at("worker", 0), at("worker", 1)],
            "ps": [at("ps", 0), at("ps", 1)],
        },
    ),
    "an evaluator beside one worker": (
        {"worker": 1, "evaluator": 1},
        {"worker": [at("worker", 0)]},
    ),
    "every role": (
        {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1},
        {"chief": [at("chief", 0)], "worker": [at("worker", 0)], "ps": [at("ps", 0)]},
    ),
    "a role without replicas": (
        {"chief": 0, "worker": 2},
        {"worker": [at("worker", 0), at("worker", 1)]},
    ),
}


def configured(parsed: Job) -> list[tuple[str, int, dict[str, Any]]]:
    """Role, index and TF_CONFIG of every pod, as its main container gets it."""
    found = []
    for role, replica in parsed.spec.replica_specs.items():
        for index in range(replica.replicas):
            pod = build_pod(parsed, role, index, 0)
            env = {e["name"]: e["value"] for e in pod["spec"]["containers"][0]["env"]}
            found.append((str(role), index, json.loads(env["TF_CONFIG"])))
    return found


@pytest.mark.parametrize(("replicas", "cluster"), GOLDEN.values(), ids=GOLDEN.keys())
def test_every_pod_gets_the_same_cluster_and_its_own_task(replicas: dict[str, int], cluster: dict[str, list[str]]):
    pods = configured(job(**replicas).job)
    assert len(pods) == sum(replicas.values())
    for role, index, config in pods:
        assert config == {"cluster": cluster, "task": {"type": role, "index": index}}


def test_a_single_replica_gets_no_tf_config():
    for role in ("chief", "worker"):
        parsed = job(**{role: 1}).job
        env = build_pod(parsed, role, 0, 0)["spec"]["containers"][0]["env"]
        assert "TF_CONFIG" not in {entry["name"] for entry in env}
        assert not has_cluster(parsed)


def test_the_exact_text():
    assert tf_config(job(worker=2).job, Role.WORKER, 1) == (
        '{"cluster":{"worker":["train-worker-0.train.team.svc:2222","train-worker-1.train.team.svc:2222"]},'
        '"task":{"type":"worker","index":1}}'
    )


def test_a_custom_cluster_domain_is_appended():
    config = json.loads(tf_config(job(worker=2).spec(clusterDomain="cluster.local").job, Role.WORKER, 0))
    assert config["cluster"]["worker"][1] == at("worker", 1, domain=".cluster.local")


def test_the_port_named_tf_of_each_role_is_used():
    other = template()
    other["spec"]["containers"][0]["ports"] = [{"name": "tf", "containerPort": 3333}]
    parsed = job(chief=1, worker={"replicas": 1, "template": other}).job
    config = json.loads(tf_config(parsed, Role.CHIEF, 0))
    assert config["cluster"] == {"chief": [at("chief", 0)], "worker": [at("worker", 0, port=3333)]}


@pytest.mark.trainer
def test_tensorflow_parses_the_result():
    cases = [config for replicas, _ in GOLDEN.values() for _, _, config in configured(job(**replicas).job)]
    program = """
import json, os, sys
from tensorflow.python.distribute.cluster_resolver.tfconfig_cluster_resolver import TFConfigClusterResolver
for config in json.load(sys.stdin):
    os.environ["TF_CONFIG"] = json.dumps(config)
    resolver = TFConfigClusterResolver()
    assert resolver.cluster_spec().as_dict() == config["cluster"], config
    assert (resolver.task_type, resolver.task_id) == (config["task"]["type"], config["task"]["index"])
print("parsed")
"""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    answer = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert answer.stdout.strip() == "parsed", answer.stderr[-2000:]
