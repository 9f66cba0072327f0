"""Small jobs on real kubelets, whose pods run one line of Python: their lifecycle, and what goes wrong with them."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from e2e.cluster.api_client import jobs_path
from e2e.job_monitor import FAST_POLL_SECONDS
from e2e.jobs import Job
from e2e.scenarios.fixtures import WAIT, JobNamespace, Record, wait_until

pytestmark = pytest.mark.e2e

FAIL_ONCE = (
    f"import os, sys; os.environ['DTJ_INDEX'] == '1' and os.environ['DTJ_ATTEMPT'] == '0' and sys.exit(3)\n{WAIT}"
)
FAIL = "import sys; sys.exit('no such table')"
GROW = "held = bytearray(1 << 30); held[::4096] = b'x' * (1 << 18)"
END = "pass"

SHOWN_SECONDS = 10
"""Seconds within which a job must report what is wrong with its pod."""
DEADLINE_SECONDS = 2
START_SECONDS = 60


def condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    return next((one for one in status.get("conditions", []) if one["type"] == kind), {})


def runs(job: Job, workers: str) -> Callable[[], bool]:
    def look() -> bool:
        status = job.status()
        return condition(status, "Running").get("status") == "True" and status["workers"] == workers

    return look


# Lifecycle


@pytest.fixture(scope="module")
def living(job_namespace: JobNamespace) -> Iterator[Job]:
    job = job_namespace.small("living", workers=2)
    wait_until(runs(job, "2/2"), START_SECONDS, "two workers that run")
    yield job
    job.delete()


def test_a_suspended_job_has_no_pods_and_a_resumed_one_runs_again(living: Job, record_property: Record) -> None:
    edit(living, suspend=True)
    seconds = wait_until(
        lambda: condition(living.status(), "Suspended").get("status") == "True" and not living.pods(),
        30,
        "a suspended job without pods",
    )
    record_property("suspended_seconds", round(seconds, 2))
    assert living.status().get("startTime") is None
    edit(living, suspend=False)
    record_property("resumed_seconds", round(wait_until(runs(living, "2/2"), START_SECONDS, "a resumed job"), 2))
    assert living.status()["restarts"]["total"] == 0


def test_kubectl_scale_changes_the_number_of_workers_and_the_cluster_that_each_is_told(
    job_namespace: JobNamespace, living: Job, record_property: Record
) -> None:
    kubectl = job_namespace.installation.cluster.kubectl
    for workers in (3, 2):
        kubectl("scale", "dtj", living.name, "-n", job_namespace.name, f"--replicas={workers}")
        seconds = wait_until(runs(living, f"{workers}/{workers}"), START_SECONDS, f"{workers} workers that run")
        record_property(f"scaled_to_{workers}_seconds", round(seconds, 2))
        said = [kubectl("exec", "-n", job_namespace.name, pod["metadata"]["name"], "--", "printenv", "TF_CONFIG")
                for pod in living.pods()]  # fmt: skip
        assert [text.count(":2222") for text in said] == [workers] * workers
    restarts = living.status()["restarts"]
    assert (restarts["byCause"], restarts["charged"]) == ({"Scaled": 2}, 0)


def test_a_worker_that_fails_once_is_replaced_alone(job_namespace: JobNamespace) -> None:
    job = job_namespace.small("failing-once", FAIL_ONCE, workers=2)
    wait_until(lambda: job.status().get("restarts", {}).get("total") == 1 and runs(job, "2/2")(), START_SECONDS,
          "a worker that was replaced")  # fmt: skip
    attempts = {pod["metadata"]["name"]: pod["metadata"]["labels"]["dtj.dev/attempt"] for pod in job.pods()}
    assert attempts == {"failing-once-worker-0": "0", "failing-once-worker-1": "1"}
    assert job.status()["lastIncident"]["exitCode"] == 3
    job.delete()


def test_a_deadline_ends_a_job_that_runs(job_namespace: JobNamespace, record_property: Record) -> None:
    job = job_namespace.small("late", activeDeadlineSeconds=6)
    wait_until(lambda: job.status().get("phase") == "Failed", 30, "a job whose time is up")
    status = job.status()
    late = seconds_between(status["startTime"], status["completionTime"]) - 6
    record_property("deadline_late_seconds", late)
    assert condition(status, "Failed")["reason"] == "DeadlineExceeded"
    assert 0 <= late <= DEADLINE_SECONDS
    wait_until(lambda: not job.pods(), 30, "its pods gone")


def test_a_finished_job_is_removed_when_its_time_has_come(job_namespace: JobNamespace, record_property: Record) -> None:
    job = job_namespace.small("short", END, ttlSecondsAfterFinished=3)
    wait_until(lambda: job.status().get("phase") == "Succeeded", START_SECONDS, "a job that succeeded")
    seconds = wait_until(
        lambda: job_namespace.installation.api.find(jobs_path(job_namespace.name, job.name)) is None, 30, "its removal"
    )
    record_property("removed_after_seconds", round(seconds, 2))
    assert seconds < 3 + DEADLINE_SECONDS
    wait_until(lambda: not job.pods(), 30, "its pods gone")


# What goes wrong


@dataclass(frozen=True)
class PodProblem:
    """A job, how its pod shows what is wrong, and what the job must then report."""

    name: str
    on_pod: Callable[[dict[str, Any]], bool]
    on_job: Callable[[dict[str, Any]], bool]
    words: tuple[str, ...]
    job: dict[str, Any]


def waiting(*reasons: str) -> Callable[[dict[str, Any]], bool]:
    def look(status: dict[str, Any]) -> bool:
        return any(one["state"].get("waiting", {}).get("reason") in reasons
                   for one in status.get("containerStatuses", []))  # fmt: skip

    return look


def ended(status: dict[str, Any]) -> bool:
    return any("terminated" in one["state"] for one in status.get("containerStatuses", []))


def unbound(status: dict[str, Any]) -> bool:
    return condition(status, "PodScheduled").get("reason") == "Unschedulable"


def not_running(reason: str) -> Callable[[dict[str, Any]], bool]:
    return lambda status: condition(status, "Running").get("reason") == reason


def failed(status: dict[str, Any]) -> bool:
    return bool(condition(status, "Failed").get("reason") == "MaxRestartsExceeded")


ONCE = {"failurePolicy": {"maxRestarts": 0}}
PROBLEMS = (
    PodProblem("unpullable", waiting("ErrImagePull", "ImagePullBackOff"), not_running("ImagePullFailed"),
            ("unpullable-worker-0", "nowhere.invalid/none:1"), {"image": "nowhere.invalid/none:1"}),
    PodProblem("too-large", unbound, not_running("Unschedulable"),
            ("too-large-worker-0", "Insufficient cpu"), {"resources": {"requests": {"cpu": "1k"}}}),
    PodProblem("failing", ended, failed, ("failing-worker-0", "exit code 1", "no such table"),
            {"program": FAIL, **ONCE}),
    PodProblem("greedy", ended, failed, ("greedy-worker-0", "137", "OutOfMemory"),
            {"program": GROW, "resources": {"limits": {"memory": "64Mi"}}, **ONCE}),
)  # fmt: skip


@pytest.fixture(scope="module")
def seen(job_namespace: JobNamespace) -> dict[str, tuple[float, dict[str, Any]]]:
    """Run all at once; return by job how long after its pod the job reported the problem, and its status then."""
    jobs = {problem.name: job_namespace.small(problem.name, **problem.job) for problem in PROBLEMS}
    on_pod: dict[str, float] = {}
    found: dict[str, tuple[float, dict[str, Any]]] = {}

    def look() -> bool:
        for problem in PROBLEMS:
            name = problem.name
            if name in found:
                continue
            status = jobs[name].status()
            if name not in on_pod and any(problem.on_pod(pod["status"]) for pod in jobs[name].pods()):
                on_pod[name] = time.monotonic()
            if problem.on_job(status):
                found[name] = time.monotonic() - on_pod.get(name, time.monotonic()), status
            time.sleep(FAST_POLL_SECONDS)
        return len(found) == len(PROBLEMS)

    wait_until(look, START_SECONDS, f"what is wrong with each of {', '.join(jobs)}, told on the job")
    for job in jobs.values():
        job.delete()
    return found


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_what_is_wrong_with_a_pod_is_soon_told_on_its_job(
    seen: dict[str, tuple[float, dict[str, Any]]], problem: PodProblem, record_property: Record
) -> None:
    seconds, status = seen[problem.name]
    record_property("told_after_seconds", round(seconds, 2))
    assert seconds < SHOWN_SECONDS
    for word in problem.words:
        assert word in status["message"]


def edit(job: Job, **spec: Any) -> None:
    job.api.patch(jobs_path(job.namespace, job.name), {"spec": spec})


def seconds_between(first: str, last: str) -> float:
    return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()
