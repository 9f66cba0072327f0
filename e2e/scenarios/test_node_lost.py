"""A node that is disconnected: its pods are given up and replaced on other nodes."""

import time
from typing import Any

import pytest

from e2e.cluster.interface import NodeFaults
from e2e.scenarios.fixtures import JobNamespace, Record, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.alone]

LOSS_SECONDS = 15
MORE_SECONDS = 6
"""Additional seconds that it may take until all run again."""


def test_a_pod_is_lost_with_its_node_and_replaced_on_another(
    job_namespace: JobNamespace, record_property: Record
) -> None:
    cluster = job_namespace.installation.cluster
    if not isinstance(cluster, NodeFaults):
        pytest.skip("the nodes of this provider cannot be cut off")
    job = job_namespace.small("cut-off", workers=2, failurePolicy={"nodeLossSeconds": LOSS_SECONDS})
    job.wait("Running", lambda status: status.get("phase") == "Running", 60)
    home = {pod["spec"]["nodeName"] for pod in job_namespace.installation.operator_pods()}
    lost = next(pod for pod in job.pods() if pod["spec"]["nodeName"] not in home)
    name, node = lost["metadata"]["name"], lost["spec"]["nodeName"]

    cut = time.monotonic()
    cluster.disconnect_node(node)
    try:
        status = job.wait("Running again", recovered, max(LOSS_SECONDS, cluster.unready_seconds) + 45)
        seconds = time.monotonic() - cut
    finally:
        cluster.reconnect_node(node)
        wait_until(lambda: ready(job_namespace, node), 60, f"{node} back")
    record_property("running_again_seconds", round(seconds, 2))

    incident = status["lastIncident"]
    assert (incident["cause"], incident["node"], incident["index"]) == ("NodeLost", node, int(name[-1]))
    assert status["restarts"] == {"total": 1, "charged": 0, "byCause": {"NodeLost": 1}, "inPlace": 0}
    new = next(pod for pod in job.pods() if pod["metadata"]["name"] == name)
    assert new["spec"]["nodeName"] != node
    assert new["metadata"]["uid"] != lost["metadata"]["uid"]
    assert seconds < max(LOSS_SECONDS, cluster.unready_seconds) + MORE_SECONDS
    job.delete()


def recovered(status: dict[str, Any]) -> bool:
    return bool(status["phase"] == "Running" and status.get("lastIncident", {}).get("recoveredAt"))


def ready(job_namespace: JobNamespace, node: str) -> bool:
    conditions = job_namespace.installation.api.get(f"/api/v1/nodes/{node}")["status"]["conditions"]
    return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)
