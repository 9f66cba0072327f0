"""The operator on a real API server, with exactly the roles of the chart."""

from __future__ import annotations

import itertools
import signal
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from dtj_operator.api.job import Job
from dtj_operator.builders.pod import build_pod
from e2e.cluster.api_client import ApiClient, ApiError
from tests.contract.operator_under_test import Jobs, operator
from tests.support.chart import OPERATOR_NAMESPACE, USER, operator_rights

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from e2e.cluster.audit import Request
    from e2e.cluster.control_plane import ControlPlane

pytestmark = [pytest.mark.contract, pytest.mark.timeout(600)]


LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{OPERATOR_NAMESPACE}/leases/dtj-operator"
BLOCKING = ("", "update", "distributedtrainingjobs/finalizers")
"""A right that no request uses visibly."""


def requests(server: ControlPlane, mark: int) -> list[Request]:
    return [request for request in server.audit.since(mark) if request.user == USER]


def test_a_whole_life_needs_every_right_of_the_rendered_role_and_no_other(
    strict_control_plane: ControlPlane, account: Path
):
    jobs = Jobs(strict_control_plane, "life")
    strict_control_plane.api.delete(LEASE)  # of an operator that has run here before: creating it is a right too
    mark = strict_control_plane.audit.mark()
    with _silent_node(strict_control_plane), operator(account):
        _train(jobs)
        _fail_often(jobs)
        _meet_foreign_objects(jobs)
        _change_under_the_operators_hands(jobs, strict_control_plane, mark)
    made = requests(strict_control_plane, mark)
    assert [request for request in made if request.code == 403] == []
    unused = {right for right in operator_rights() if not any(_uses(request, *right) for request in made)}
    assert unused == {BLOCKING}  # no request of its own: what the pods above needed, see the next test


def test_pods_that_block_the_deletion_of_their_job_need_the_right_to_its_finalizers(
    strict_control_plane: ControlPlane, account: Path
):
    jobs = Jobs(strict_control_plane, "blocking")
    jobs.create("train", suspend=True)
    poor = ApiClient(strict_control_plane.service_account("blocking", "poor"))
    strict_control_plane.kubectl("create", "role", "poor", "-n", "blocking", "--verb=create", "--resource=pods")
    strict_control_plane.kubectl(
        "create", "rolebinding", "poor", "-n", "blocking", "--role=poor", "--serviceaccount=blocking:poor"
    )
    pod = build_pod(Job.parse(jobs.get("train")), "worker", 0, 0)
    with pytest.raises(ApiError, match="cannot set blockOwnerDeletion"):
        poor.create("/api/v1/namespaces/blocking/pods", pod)
    ApiClient(account).create("/api/v1/namespaces/blocking/pods", pod)


@contextmanager
def _silent_node(server: ControlPlane) -> Iterator[None]:
    """Create a node without a heartbeat for a long time: the operator reads it again before it is lost."""
    silent = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    node = {"metadata": {"name": "silent"}, "status": {"conditions": [silent]}}
    server.api.create("/api/v1/nodes", node)
    yield
    server.api.delete("/api/v1/nodes/silent")


def _train(jobs: Jobs) -> None:
    """Let a job be created, fail and be replaced, suspended, resumed, scaled, finished, and removed after its TTL."""
    policy = {"maxRestarts": 3, "backoff": {"initialSeconds": 0, "maxSeconds": 1, "resetAfterSeconds": 600}}
    jobs.create("train", failurePolicy=policy)
    jobs.until(lambda: jobs.holds("train", "Running"), "a running job")
    jobs.end_pod("train-worker-1", 1)
    jobs.until(lambda: jobs.status("train")["attempt"] >= 1 and jobs.holds("train", "Running"), "a recovered job")
    jobs.edit("train", suspend=True)
    jobs.until(lambda: jobs.holds("train", "Suspended") and not jobs.pods(), "a suspended job without pods")
    jobs.edit("train", suspend=False)
    jobs.until(lambda: jobs.holds("train", "Running"), "a resumed job")
    jobs.edit("train", replicaSpecs={"worker": {"replicas": 3}}, ttlSecondsAfterFinished=1)
    jobs.until(lambda: jobs.status("train")["workers"] == "3/3" and jobs.holds("train", "Running"), "a larger job")
    jobs.end_pod("train-worker-0", 0)
    jobs.until(lambda: "train" not in jobs.names(), "a job that is gone after its time")


def _fail_often(jobs: Jobs) -> None:
    """Let so many pods fail that one event counts the last of them."""
    jobs.create("failing", worker=13, failurePolicy={"maxRestarts": 100})
    jobs.until(lambda: jobs.holds("failing", "Running"), "a job that runs")

    def counted(count: int) -> bool:
        return any(
            event["message"].startswith("(combined from similar events)") and event["count"] == count
            for event in jobs.events("failing")
        )

    for number in range(11):
        jobs.end_pod(f"failing-worker-{number}", 1)
    jobs.until(lambda: counted(1), "an event that stands for the eleventh failure")
    jobs.end_pod("failing-worker-11", 1)
    jobs.until(lambda: counted(2), "an event that counts the twelfth failure too")


def _meet_foreign_objects(jobs: Jobs) -> None:
    """Take the names of a job's objects: the operator has to read what has them."""
    container = {"name": "c", "image": "example.org/other:1"}
    jobs.create_in_core("pods", {"metadata": {"name": "taken-worker-0"}, "spec": {"containers": [container]}})
    jobs.create_in_core("services", {"metadata": {"name": "crossed"}, "spec": {"ports": [{"port": 80}]}})
    jobs.create("taken")
    jobs.create("crossed")

    def told(name: str) -> bool:
        return any(one["reason"] == "NameTaken" for one in jobs.status(name).get("conditions") or ())

    jobs.until(lambda: told("taken") and told("crossed"), "two jobs that say that their names are taken")
    jobs.delete_in_core("pods", "taken-worker-0")
    jobs.until(lambda: jobs.holds("taken", "Running"), "a job that starts when its name is free")


def _change_under_the_operators_hands(jobs: Jobs, server: ControlPlane, mark: int) -> None:
    """Write the job so often that a status write of the operator meets a newer version."""
    numbers = itertools.count()

    def has_conflicted() -> bool:
        number = next(numbers)
        jobs.edit("taken", suspend=bool(number % 2))
        for turn in range(10):
            jobs.touch("taken", number * 100 + turn)
        return any(
            request.verb == "get" and request.resource == "distributedtrainingjobs"
            for request in requests(server, mark)
        )

    jobs.until(has_conflicted, "a status write that met a newer version")


def _uses(request: Request, namespace: str, verb: str, resource: str) -> bool:
    asked = "/".join(filter(None, (request.resource, request.subresource)))
    return request.verb == verb and asked == resource and namespace in {"", request.namespace}


def test_the_standby_takes_over_within_three_seconds_and_nothing_is_written_twice(
    strict_control_plane: ControlPlane, account: Path
):
    jobs = Jobs(strict_control_plane, "handover")
    mark = strict_control_plane.audit.mark()
    with operator(account) as leader:
        jobs.create("before")
        jobs.until(lambda: len(jobs.pods()) == 2, "a job with its pods")
        with operator(account):
            first = strict_control_plane.api.get(LEASE)["spec"]["holderIdentity"]
            jobs.until(lambda: _standing_by(strict_control_plane, mark), "a standby that looks at the lease")
            for number in range(5):
                jobs.create(f"amid-{number}")
            leader.send_signal(signal.SIGTERM)
            began = time.monotonic()
            jobs.create("after")
            jobs.until(
                lambda: strict_control_plane.api.get(LEASE)["spec"]["holderIdentity"] not in {"", first},
                "a standby that leads",
            )
            jobs.until(
                lambda: "after-worker-1" in jobs.pods(), "a job that was created amid the hand-over and has its pods"
            )
            seconds = time.monotonic() - began
            jobs.until(lambda: all(jobs.holds(name, "Running") for name in jobs.names()), "jobs that all run")
    assert seconds < 3.0
    made = [one for one in requests(strict_control_plane, mark) if one.namespace == jobs.namespace]
    creations = Counter((one.resource, one.name, one.code) for one in made if one.verb == "create")
    assert {code for _, _, code in creations} == {201}
    assert len([one for one in creations if one[0] == "pods"]) == 14
    assert set(Counter(made_one for made_one in creations.elements() if made_one[0] != "events").values()) == {1}
    for name in ("before", "after", *(f"amid-{number}" for number in range(5))):
        told = Counter(event["reason"] for event in jobs.events(name))
        assert told["Created"] == told["Started"] == 1


def _standing_by(server: ControlPlane, mark: int) -> bool:
    looks = [
        one for one in requests(server, mark) if (one.verb, one.resource, one.name) == ("get", "leases", "dtj-operator")
    ]
    return len(looks) > 2
