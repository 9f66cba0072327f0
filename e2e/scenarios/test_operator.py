"""The operator out of the way: deleted in mid-job, quiet when nothing changes, and without rights it does not need."""

import time
from typing import Any

import pytest

from e2e import chart
from e2e.api import core_path
from e2e.scenarios.ground import Ground, Place, Record, training

pytestmark = pytest.mark.e2e

QUIET_SECONDS = 60
PROGRESS_SECONDS = 30
"""The least time between two writes of one job's progress (status.progress)."""
AGENT = "dtj-operator/"


def restarts(pods: list[dict[str, Any]]) -> dict[str, int]:
    return {
        pod["metadata"]["uid"]: sum(state["restartCount"] for state in pod["status"].get("containerStatuses", []))
        for pod in pods
    }


def test_operator_pod_deleted_training_goes_on(place: Place) -> None:
    job, variation = place.run(epochs=8)
    with place.watch(job) as watcher:
        training(watcher, 2, step=100)
        before = restarts(job.pods())
        operators = place.ground.operator_pods()
        for pod in operators:
            place.ground.api.delete(core_path(chart.NAMESPACE, "pods", pod["metadata"]["name"]))
        seen = len(watcher.samples)
        status = job.succeeded(120)
        during = watcher.samples[seen:]

    assert {sample.restarts for sample in during} == {0}
    assert restarts(job.pods()) == before
    assert status["progress"]["step"] == variation.expected_steps
    assert status["restarts"]["total"] == 0
    gone = {pod["metadata"]["uid"] for pod in operators}
    assert gone.isdisjoint(pod["metadata"]["uid"] for pod in place.ground.operator_pods())


def test_steady_state_writes_nothing_but_the_lease(place: Place, record_property: Record) -> None:
    """One job whose pods only wait, and one that trains: nothing is written but how far the second one is."""
    audit = place.ground.cluster.audit
    if audit is None:
        pytest.skip("this provider does not show the API server's audit log")
    still = place.idle(name="still")
    moving, _ = place.run(name="moving", epochs=400)
    with place.watch(moving) as watcher:
        training(watcher, 2, step=20)
        for job in (moving, still):
            job.wait("Running", lambda status: status.get("phase") == "Running", 30)
        time.sleep(5)
        mark = audit.mark()
        time.sleep(QUIET_SECONDS)
        writes = [request for request in audit.since(mark, user_agent=AGENT) if request.writes]
    moving.delete()
    still.delete()

    other = [f"{write.verb} {write.resource}/{write.subresource} {write.name}" for write in writes
             if write.resource != "leases"]  # fmt: skip
    record_property("lease_writes", len(writes) - len(other))
    record_property("progress_writes", len(other))
    assert set(other) <= {"patch distributedtrainingjobs/status moving"}
    assert len(other) <= QUIET_SECONDS / PROGRESS_SECONDS
    assert writes, "the operator renews its Lease, and its requests are found under its user agent"


@pytest.mark.parametrize(
    ("verb", "resource"),
    [
        ("get", "secrets"),
        ("list", "secrets"),
        ("create", "pods/exec"),
        ("create", "pods/attach"),
        ("create", "pods/portforward"),
        ("create", "serviceaccounts/token"),
        ("create", "clusterrolebindings.rbac.authorization.k8s.io"),
        ("delete", "namespaces"),
        ("delete", "persistentvolumeclaims"),
        ("create", "distributedtrainingjobs.dtj.dev"),
        ("*", "*"),
    ],
)
def test_operator_may_not(ground: Ground, verb: str, resource: str) -> None:
    assert not may(ground, verb, resource)


@pytest.mark.parametrize(
    ("verb", "resource"),
    [("create", "pods"), ("create", "services"), ("patch", "distributedtrainingjobs/status.dtj.dev")],
)
def test_operator_may(ground: Ground, verb: str, resource: str) -> None:
    assert may(ground, verb, resource)


def may(ground: Ground, verb: str, resource: str) -> bool:
    """What the API server says about the operator's own ServiceAccount, in every namespace."""
    account = ground.operator_pods()[0]["spec"]["serviceAccountName"]
    name, _, group = resource.partition(".")
    kind, _, subresource = name.partition("/")
    asked = {"verb": verb, "resource": kind, "subresource": subresource, "group": group}
    review = ground.api.post(
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:{chart.NAMESPACE}:{account}",
                "groups": ["system:serviceaccounts", f"system:serviceaccounts:{chart.NAMESPACE}"],
                "resourceAttributes": asked,
            },
        },
    )
    return bool(review["status"]["allowed"])
