"""Every example, from the manifest to what each of its pods is told, as the trainer reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from dtj_operator.api.job import Job
from dtj_operator.builders.main_container import main_container
from dtj_operator.builders.pod import build_pod
from dtj_trainer.cluster import environment
from dtj_trainer.cluster.task_mode import TaskMode, dtensor_environment, task_mode
from dtj_trainer.supervisor.settings import parse

EXAMPLES = Path(__file__).parents[3] / "examples"
ONE = {"worker-0": TaskMode.SINGLE}
TWO = {"worker-0": TaskMode.COLLECTIVE, "worker-1": TaskMode.COLLECTIVE}
SERVED = {
    "chief-0": TaskMode.COORDINATOR,
    "worker-0": TaskMode.SERVER,
    "worker-1": TaskMode.SERVER,
    "ps-0": TaskMode.SERVER,
}
EXPECTED: dict[str, tuple[str, dict[str, TaskMode]]] = {
    "adversarial": ("MultiWorkerMirrored", TWO),
    "cifar10-multiworker": ("MultiWorkerMirrored", TWO),
    "ctr-parameter-server": ("ParameterServer", SERVED | {"ps-1": TaskMode.SERVER}),
    "digits-accumulation": ("MultiWorkerMirrored", TWO),
    "digits-central-storage": ("CentralStorage", ONE),
    "digits-evaluator": (
        "MultiWorkerMirrored",
        {"chief-0": TaskMode.COLLECTIVE, "worker-0": TaskMode.COLLECTIVE, "evaluator-0": TaskMode.SINGLE},
    ),
    "digits-mirrored": ("Mirrored", ONE),
    "digits-mixed-precision": ("OneDevice", ONE),
    "digits-multiworker": ("MultiWorkerMirrored", TWO),
    "digits-one-device": ("OneDevice", ONE),
    "digits-parameter-server": ("ParameterServer", SERVED),
    "digits-tpu": ("TPU", ONE),
    "digits-tpu-slice": (
        "TPU",
        {"chief-0": TaskMode.COORDINATOR, **{f"worker-{index}": TaskMode.SERVER for index in range(4)}},
    ),
    "gke-gpu": ("MultiWorkerMirrored", TWO),
    "gke-tpu": ("TPU", ONE),
    "hello": ("OneDevice", ONE),
    "hybrid-dtensor": ("None", TWO),
    "pipeline-parallel": ("None", ONE),
    "tutorial": ("MultiWorkerMirrored", TWO),
}
"""The strategy of each manifest, and what its pods do."""


def pods(name: str) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Arguments and environment of each pod's main container, by role and index."""
    raw = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    job = Job.parse({**raw, "metadata": {**raw["metadata"], "namespace": "team", "uid": "u1"}})
    assert not job.problem
    found = {}
    for role, replica in job.spec.replica_specs.items():
        for index in range(replica.replicas):
            container: dict[str, Any] = main_container(job.spec, build_pod(job, role, index, 0))
            given = {entry["name"]: entry["value"] for entry in container["env"]}
            found[f"{role}-{index}"] = container["args"], given
    return found


def test_no_example_is_forgotten():
    assert {file.stem for file in EXAMPLES.glob("*.yaml")} == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_the_pods_of_an_example_know_their_program_their_strategy_and_their_part(name: str):
    strategy, parts = EXPECTED[name]
    made = pods(name)
    assert {slot: task_mode(environment.read(given)) for slot, (_, given) in made.items()} == parts
    for slot, (arguments, given) in made.items():
        told = environment.read(given)
        assert told.strategy["type"] == strategy
        assert f"{told.role}-{told.index}" == slot
        program = parse(arguments, given).program
        assert program is not None
        assert (EXAMPLES.parent / program.name).is_file()


def test_dtensor_is_told_the_addresses_of_both_pods():
    told = [dtensor_environment(environment.read(given).tf_config) for _, given in pods("hybrid-dtensor").values()]
    addresses = "hybrid-worker-0.hybrid.team.svc:2222,hybrid-worker-1.hybrid.team.svc:2222"
    assert [each["DTENSOR_CLIENT_ID"] for each in told] == ["0", "1"]
    assert [each["DTENSOR_JOBS"] for each in told] == [addresses] * 2
