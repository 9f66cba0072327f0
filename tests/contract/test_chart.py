"""All that the chart can render meets a real API server, and its `helm test` runs beside it."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import binaries
from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.toolchain import toolchain
from e2e.cluster.wait import wait_until
from tests.contract.operator_under_test import SECONDS, operator
from tests.support.chart import OPERATOR_NAMESPACE, RIGHTS, of_kind, one, rendered, wait_established
from tests.support.ports import free_port

pytestmark = [pytest.mark.contract, pytest.mark.timeout(300)]

EVERYTHING: dict[str, Any] = {
    "global": {"imageRegistry": "example.org", "imagePullSecrets": ["a"]},
    "replicas": 2,
    "profiles": {"spot": {"spec": {"nodeSelector": {"a": "b"}}}},
    "rbac": {"profileEditors": [{"kind": "Group", "name": "platform", "apiGroup": "rbac.authorization.k8s.io"}]},
    "networkPolicy": {
        "perJob": True,
        "operator": True,
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}],
        "apiServerCIDRs": ["10.0.0.1/32"],
        "extraEgress": [{"ports": [{"port": 53, "protocol": "UDP"}]}],
    },
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"nodeAffinity": {}},
    "podAnnotations": {"a": "b"},
    "podLabels": {"a": "b"},
    "extraArgs": ["--workers=7"],
    "extraEnv": [{"name": "A", "value": "b"}],
    "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca"}],
    "commonLabels": {"team": "ml"},
    "commonAnnotations": {"owner": "ml"},
    "metrics": {"dashboards": {"enabled": True}},
    "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "more"}}],
}


@pytest.mark.parametrize("more", [
    {},
    {"podSecurityContext": None, "securityContext": None, "topologySpreadConstraints": []},
    {"watchNamespaces": ["default"]},
], ids=["all", "without contexts", "some namespaces"])  # fmt: skip
def test_an_api_server_takes_everything_that_can_be_rendered_and_knows_each_field(
    control_plane: ControlPlane, tmp_path: Path, more: dict[str, Any]
):
    control_plane.namespace(OPERATOR_NAMESPACE)
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(EVERYTHING | more))
    documents = rendered(values=values, tests=True)
    kinds = {"ConfigMap", "Deployment", "NetworkPolicy", "Pod", "PodDisruptionBudget", "RoleBinding", "Service"}
    assert kinds <= {document["kind"] for document in documents}
    # Only the controllers, which do not run here, would make the account that a pod needs.
    documents = [document for document in documents if document["kind"] != "Pod"]
    said = control_plane.kubectl(
        "apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump_all(documents)
    )
    assert len(said.splitlines()) == len(documents)


MODULE = ("github.com/prometheus-operator/prometheus-operator", "v0.85.0")
SUM = "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
"""Of the module's sources, as in a go.sum."""
MONITORS = ("podmonitors", "prometheusrules", "servicemonitors")


def _prometheus_operator(folder: Path) -> Path:
    """Return the sources of the Prometheus operator, which have its CRDs."""
    go = toolchain(binaries.minimum_go())
    command = [str(go.command), "mod", "download", "-json", "@".join(MODULE)]
    done = subprocess.run(command, cwd=folder, env=go.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["Sum"] == SUM
    return Path(found["Dir"])


def test_an_api_server_with_the_prometheus_operators_kinds_takes_monitors_and_rules(
    control_plane: ControlPlane, tmp_path: Path
):
    definitions = _prometheus_operator(tmp_path) / "example" / "prometheus-operator-crd"
    for plural in MONITORS:
        file = definitions / f"monitoring.coreos.com_{plural}.yaml"
        control_plane.kubectl("apply", "--server-side", "-f", str(file))
        wait_established(control_plane.api, f"{plural}.monitoring.coreos.com")
    on = {"enabled": True, "interval": "15s", "scrapeTimeout": "10s", "labels": {"release": "a"}}
    on |= {"metricRelabelings": [{"action": "labeldrop", "regex": "a"}]}
    rules = {"enabled": True, "ruleLabels": {"team": "ml"}, "runbookUrl": "https://example.org"}
    monitored = {"serviceMonitor": on, "podMonitor": on, "prometheusRule": rules}
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"metrics": monitored}))
    control_plane.namespace(OPERATOR_NAMESPACE)
    documents = of_kind(rendered(values=values), "PodMonitor", "PrometheusRule", "ServiceMonitor")
    assert len(documents) == len(MONITORS)
    said = control_plane.kubectl(
        "apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump_all(documents)
    )
    assert len(said.splitlines()) == len(documents)


def test_the_helm_test_succeeds_with_the_rights_of_its_account_and_fails_without_them(
    strict_control_plane: ControlPlane, account: Path, tmp_path: Path
):
    documents = rendered(tests=True)
    (pod,) = of_kind(documents, "Pod")
    (container,) = pod["spec"]["containers"]
    name = pod["spec"]["serviceAccountName"]
    _account_folder(strict_control_plane.service_account(OPERATOR_NAMESPACE, name), tmp_path)
    port = free_port()
    here = {
        "API": strict_control_plane.server,
        "ACCOUNT": str(tmp_path),
        "METRICS": f"http://127.0.0.1:{port}/metrics",
    }
    asked = {each["name"]: each["value"] for each in container["env"]}
    assert asked.keys() == here.keys() | {"NAMESPACE"}

    def run() -> tuple[int, str]:
        command = [sys.executable, *container["command"][1:]]
        environment = {"PATH": os.environ["PATH"], **asked, **here}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    with operator(account, f"--metrics-bind-address=127.0.0.1:{port}", "--no-leader-elect"):
        wait_until(lambda: "cannot create resource" in run()[1], SECONDS, lambda: run()[1])
        roles = [one(documents, kind, name) for kind in RIGHTS if kind.startswith("Role")]
        strict_control_plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(roles))
        code, said = run()
    assert code == 0, said
    assert "says of one that is wrong: DistributedTrainingJob" in said
    assert run()[0] == 1, "nobody answers for the operator"
    jobs = f"/apis/dtj.dev/v1alpha1/namespaces/{OPERATOR_NAMESPACE}/distributedtrainingjobs"
    assert strict_control_plane.api.get(jobs)["items"] == []


def _account_folder(config: Path, folder: Path) -> None:
    """Write token and ca.crt, as a pod's projected volume has them, from a kubeconfig."""
    found = yaml.safe_load(config.read_text())
    (folder / "token").write_text(found["users"][0]["user"]["token"])
    authority = found["clusters"][0]["cluster"]["certificate-authority-data"]
    (folder / "ca.crt").write_bytes(base64.b64decode(authority))


def test_the_test_pod_is_not_taken_for_one_of_the_operator():
    documents = rendered(tests=True)
    (pod,) = of_kind(documents, "Pod")
    selector = one(documents, "Deployment")["spec"]["selector"]["matchLabels"]
    assert not selector.items() <= pod["metadata"]["labels"].items()
    assert json.dumps(pod["spec"]).count("65532") == 3
