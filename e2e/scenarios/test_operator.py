"""The operator deleted while a job trains, and its rights."""

from typing import Any

import pytest

from e2e import chart
from e2e.cluster.api_client import core_path
from e2e.scenarios.fixtures import Installation, JobNamespace, wait_for_step

pytestmark = [pytest.mark.e2e, pytest.mark.alone]


def restarts(pods: list[dict[str, Any]]) -> dict[str, int]:
    return {
        pod["metadata"]["uid"]: sum(state["restartCount"] for state in pod["status"].get("containerStatuses", []))
        for pod in pods
    }


def test_operator_pod_deleted_training_goes_on(job_namespace: JobNamespace) -> None:
    job, variation = job_namespace.run(epochs=4)
    with job_namespace.monitor(job) as monitor:
        wait_for_step(monitor, 2, step=100)
        before = restarts(job.pods())
        operators = job_namespace.installation.operator_pods()
        for pod in operators:
            job_namespace.installation.api.delete(core_path(chart.NAMESPACE, "pods", pod["metadata"]["name"]))
        seen = len(monitor.samples)
        status = job.succeeded(120)
        during = monitor.samples[seen:]

    assert {sample.restarts for sample in during} == {0}
    assert restarts(job.pods()) == before
    assert status["progress"]["step"] == variation.expected_steps
    assert status["restarts"]["total"] == 0
    gone = {pod["metadata"]["uid"] for pod in operators}
    assert gone.isdisjoint(pod["metadata"]["uid"] for pod in job_namespace.installation.operator_pods())


def test_helms_test_reaches_the_operator_and_the_api_server(installation: Installation) -> None:
    log = chart.run_tests(installation.cluster)
    assert "the operator answers at http://dtj-operator-metrics.dtj-system.svc:8080/metrics" in log
    assert "the API server takes a job that is right" in log


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
def test_operator_may_not(installation: Installation, verb: str, resource: str) -> None:
    assert not may(installation, verb, resource)


@pytest.mark.parametrize(
    ("verb", "resource"),
    [("create", "pods"), ("create", "services"), ("patch", "distributedtrainingjobs/status.dtj.dev")],
)
def test_operator_may(installation: Installation, verb: str, resource: str) -> None:
    assert may(installation, verb, resource)


def may(installation: Installation, verb: str, resource: str) -> bool:
    """Ask the API server what the operator's ServiceAccount may do, in every namespace."""
    account = installation.operator_pods()[0]["spec"]["serviceAccountName"]
    name, _, group = resource.partition(".")
    kind, _, subresource = name.partition("/")
    asked = {"verb": verb, "resource": kind, "subresource": subresource, "group": group}
    review = installation.api.post(
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
