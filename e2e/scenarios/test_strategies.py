"""The example of every strategy as a job on the cluster, from the manifest to Succeeded and a good accuracy.

MultiWorkerMirrored is in test_job.py. All jobs run at the same time and share the nodes.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.jobs import Job, manifest, shrink, termination
from e2e.scenarios.fixtures import JobNamespace, wait_until

pytestmark = pytest.mark.e2e

STEPS = 100
SHORT = ("--epochs=2", f"--steps-per-epoch={STEPS // 2}")
SECONDS = 240
TRAINED = {
    "digits-one-device.yaml": "OneDevice",
    "digits-mirrored.yaml": "Mirrored",
    "digits-central-storage.yaml": "CentralStorage",
    "digits-parameter-server.yaml": "ParameterServer",
    "digits-evaluator.yaml": "MultiWorkerMirrored",
}


@dataclass(frozen=True)
class Running:
    """A job, and the directory of its checkpoints where that is on this machine."""

    job: Job
    checkpoints: Path | None


@pytest.fixture(scope="module")
def jobs(job_namespace: JobNamespace) -> dict[str, Running]:
    trained = {file: start(job_namespace, file, manifest(file), *SHORT) for file in TRAINED}
    plain = start(job_namespace, "tutorial.yaml", manifest("tutorial.yaml"), *SHORT)
    refused = start(job_namespace, "digits-tpu.yaml", without_tpu_node(manifest("digits-tpu.yaml")))
    return {**trained, "tutorial.yaml": plain, "digits-tpu.yaml": refused}


def start(job_namespace: JobNamespace, file: str, body: dict[str, Any], *arguments: str) -> Running:
    name = file.removesuffix(".yaml")
    checkpoints = job_namespace.installation.cluster.shared_volume(job_namespace.name, name)
    varied = shrink(body, name, job_namespace.installation.trainer_image, *arguments)
    return Running(Job.create(job_namespace.installation.api, job_namespace.name, varied), checkpoints)


def without_tpu_node(body: dict[str, Any]) -> dict[str, Any]:
    """Change the TPU job so that it is scheduled to a node without a TPU."""
    del body["spec"]["tpu"]
    body["spec"]["strategy"] = {"type": "TPU"}
    body["spec"]["failurePolicy"] = {"maxRestarts": 0}
    return body


def test_the_first_job_of_the_tutorial_needs_no_volume(job_namespace: JobNamespace) -> None:
    job = Job.create(
        job_namespace.installation.api,
        job_namespace.name,
        shrink(manifest("hello.yaml"), "hello", job_namespace.installation.trainer_image),
    )
    status = job.succeeded(SECONDS)
    assert (status["strategy"]["type"], status["progress"]["step"]) == ("OneDevice", 200)
    assert "\ny = 3.00x + 1.00 after 200 steps\n" in job.log("worker-0")


@pytest.mark.parametrize("file", TRAINED)
def test_example_learns_to_read_digits(file: str, jobs: dict[str, Running]) -> None:
    status = jobs[file].job.succeeded(SECONDS)
    assert status["strategy"]["type"] == TRAINED[file]
    assert status["restarts"]["total"] == 0
    assert status["progress"]["step"] == STEPS
    assert status["progress"]["metrics"]["val_accuracy"] >= 0.9
    directory = jobs[file].checkpoints
    assert directory is None or json.loads((directory / "done.json").read_text())["step"] == STEPS


def test_parameter_servers_and_their_workers_are_stopped_when_the_chief_is_done(jobs: dict[str, Running]) -> None:
    running = jobs["digits-parameter-server.yaml"]
    running.job.succeeded(SECONDS)
    wait_until(lambda: len(running.job.pods()) == 1, 30, "only the chief's pod left")
    assert termination(running.job.pod("chief-0"))["class"] == "done"
    assert "dtj: strategy ParameterServer (as the job says), 2 workers and 1 ps, asynchronous" in running.job.log(
        "chief-0"
    )


def test_evaluator_evaluates_the_last_checkpoint_and_ends_by_itself(jobs: dict[str, Running]) -> None:
    running = jobs["digits-evaluator.yaml"]
    wanted = running.job.succeeded(SECONDS)["progress"]["metrics"]["val_accuracy"]
    wait_until(lambda: termination(running.job.pod("evaluator-0")), 60, "the evaluator ended")
    told = termination(running.job.pod("evaluator-0"))
    assert (told["class"], told["step"]) == ("done", STEPS)
    assert told["metrics"]["val_accuracy"] == pytest.approx(wanted, abs=1e-6)


def test_plain_script_trains_under_its_own_strategy(jobs: dict[str, Running]) -> None:
    running = jobs["tutorial.yaml"]
    running.job.succeeded(SECONDS)
    log = running.job.log(
        "worker-0"
    )  # as soon as this one is done the other is stopped, which may be on its last lines
    assert "CollectiveAllReduceStrategy with 2 replicas" in log
    found = re.search(rf"^test accuracy (0\.\d+) after {STEPS} steps$", log, re.MULTILINE)
    assert found is not None, log
    assert float(found[1]) >= 0.9


def test_tpu_job_says_in_one_sentence_that_there_is_no_tpu(jobs: dict[str, Running]) -> None:
    job = jobs["digits-tpu.yaml"].job
    status = job.wait("Failed", lambda status: status.get("phase") == "Failed", SECONDS)
    (why,) = [each["message"] for each in status["conditions"] if (each["type"], each["status"]) == ("Failed", "True")]
    assert "the TPU strategy was asked for and there is no TPU here; " in why
