"""The control plane of the tests: it serves, enforces RBAC, logs requests and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2e.cluster.api_client import ApiClient, ApiError
from e2e.cluster.control_plane import ControlPlane, start_control_plane

pytestmark = [pytest.mark.contract, pytest.mark.timeout(1800)]


def test_it_serves_kubernetes_1_35(control_plane: ControlPlane):
    assert control_plane.api.get("/version")["gitVersion"] == "v1.35.4"


def test_a_service_account_has_no_rights_until_it_is_given_some(control_plane: ControlPlane):
    account = ApiClient(control_plane.service_account("rights", "reader"))
    with pytest.raises(ApiError, match="cannot list resource") as refused:
        account.get("/api/v1/namespaces/rights/pods")
    assert refused.value.code == 403
    control_plane.kubectl("create", "role", "r", "-n", "rights", "--verb=list", "--resource=pods")
    control_plane.kubectl("create", "rolebinding", "r", "-n", "rights", "--role=r", "--serviceaccount=rights:reader")
    assert account.get("/api/v1/namespaces/rights/pods")["items"] == []


def test_a_token_is_required(control_plane: ControlPlane):
    with pytest.raises(ApiError) as refused:
        ApiClient(_without_credentials(control_plane)).get("/api/v1/nodes")
    assert refused.value.code == 401


def test_the_audit_log_counts_requests_by_user_agent(control_plane: ControlPlane):
    mark = control_plane.audit.mark()
    control_plane.namespace("counted")
    control_plane.api.get("/api/v1/namespaces/counted")
    assert control_plane.audit.count(mark, user_agent="dtj-cluster") == {"create namespaces": 1, "get namespaces": 1}
    written = [request for request in control_plane.audit.since(mark) if request.writes]
    assert [(request.name, request.code) for request in written] == [("counted", 201)]


def test_controllers_collect_what_has_no_owner_left(strict_control_plane: ControlPlane):
    api = strict_control_plane.api
    maps = "/api/v1/namespaces/default/configmaps"
    owner = api.create(maps, {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    api.create(maps, {"metadata": {"name": "owned", "ownerReferences": [reference]}})
    api.delete(f"{maps}/owner")
    _until(lambda: "owned" not in strict_control_plane.kubectl("get", "configmaps", "-o", "name"))


def test_fake_nodes_run_pods(strict_control_plane: ControlPlane):
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    strict_control_plane.api.create("/api/v1/namespaces/default/pods", pod)
    _until(lambda: strict_control_plane.api.get("/api/v1/namespaces/default/pods/p")["status"]["phase"] == "Running")


def test_nothing_is_left_when_it_ends():
    with start_control_plane() as running:
        pids = _processes(running.directory)
        assert len(pids) >= 3
    assert not running.directory.exists()
    assert not _processes(running.directory)


def test_nothing_is_left_when_its_creator_is_killed():
    program = (
        "import time; from e2e.cluster.control_plane import start_control_plane\n"
        "with start_control_plane() as running: print(running.directory, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as creator:
        assert creator.stdout is not None
        directory = Path(creator.stdout.readline().strip())
        assert _processes(directory)
        os.kill(creator.pid, signal.SIGKILL)
    _until(lambda: not _processes(directory) and not directory.exists())


def _processes(directory: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if str(directory).encode() in words and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def _without_credentials(running: ControlPlane) -> Path:
    text = running.kubeconfig.read_text()
    stripped = running.directory / "nobody.kubeconfig"
    stripped.write_text(text[: text.index("  user:")] + "  user: {}\n" + text[text.index("contexts:") :])
    return stripped


def _until(condition, limit=30.0):
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
