"""What a real API server answers when only metadata is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from dtj_operator.kube.client import METADATA_ONLY, ApiClient
from dtj_operator.kube.kubeconfig import from_kubeconfig
from dtj_operator.kube.resources import JOBS, PODS
from e2e.cluster.control_plane import ControlPlane

pytestmark = [pytest.mark.contract, pytest.mark.timeout(600)]


@pytest.mark.usefixtures("account")
async def test_lists_of_pods_and_jobs_come_without_spec_and_status(strict_control_plane: ControlPlane):
    containers = {"containers": [{"name": "c", "image": "none"}]}
    api, namespace = strict_control_plane.api, "metadata-lists"
    strict_control_plane.namespace(namespace)
    api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})
    for name in ("a", "b", "c"):
        api.create(f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": name}, "spec": containers})
    job: dict[str, Any] = {"apiVersion": JOBS.api_version, "kind": "DistributedTrainingJob", "metadata": {"name": "j"}}
    job["spec"] = {"replicaSpecs": {"worker": {"template": {"spec": containers}}}}
    api.create(f"/apis/dtj.dev/v1alpha1/namespaces/{namespace}/distributedtrainingjobs", job)
    async with ApiClient(from_kubeconfig(str(strict_control_plane.kubeconfig)), user_agent="t") as client:
        for resource, wanted in ((PODS, ["a", "b", "c"]), (JOBS, ["j"])):
            pages = [page async for page in client.list_pages(resource, namespace, limit=2, accept=METADATA_ONLY)]
            items = [item for page in pages for item in page.items]
            assert [item["metadata"]["name"] for item in items] == wanted
            assert not any("spec" in item or "status" in item for item in items)
            assert all(page.resource_version not in {"", "0"} for page in pages)
