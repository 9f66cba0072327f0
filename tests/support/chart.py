"""What the chart installs for the operator: CRD, ServiceAccount and RBAC roles."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from e2e.cluster import binaries
from e2e.cluster.wait import wait_until

if TYPE_CHECKING:
    from e2e.cluster.api_client import ApiClient
    from e2e.cluster.control_plane import ControlPlane

CHART: Final = Path(__file__).resolve().parents[2] / "charts" / "dtj-operator"
CRD: Final = "distributedtrainingjobs.dtj.dev"
OPERATOR_NAMESPACE: Final = "dtj-system"
ACCOUNT: Final = "dtj-operator"
USER: Final = f"system:serviceaccount:{OPERATOR_NAMESPACE}:{ACCOUNT}"
RIGHTS: Final = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


def rendered(chart: Path = CHART, values: Path | None = None, *, tests: bool = False) -> list[dict[str, Any]]:
    """Render a chart with its default values, and those of a file; returns its documents, on request with its tests."""
    command = [str(binaries.path("helm")), "template", "dtj-operator", str(chart), "--namespace", OPERATOR_NAMESPACE]
    command += [*(["--values", str(values)] if values else []), *([] if tests else ["--skip-tests"])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [document for document in yaml.load_all(done.stdout, yaml.CSafeLoader) if document]


def of_kind(documents: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    """Return the documents of these kinds."""
    return [document for document in documents if document["kind"] in kinds]


def one(documents: list[dict[str, Any]], kind: str, name: str = "dtj-operator") -> dict[str, Any]:
    """Return the document of that kind and name."""
    (found,) = [each for each in of_kind(documents, kind) if each["metadata"]["name"] == name]
    return found


def install(control_plane: ControlPlane) -> Path:
    """Install the chart's CRD and roles; returns a kubeconfig of the operator's ServiceAccount."""
    account = control_plane.service_account(OPERATOR_NAMESPACE, ACCOUNT)
    apply(control_plane)
    return account


def apply(
    control_plane: ControlPlane,
    chart: Path = CHART,
    kinds: tuple[str, ...] = (*RIGHTS, "CustomResourceDefinition"),
    values: Path | None = None,
) -> None:
    """Install a chart's CRD and roles, or these kinds alone, over those of another version of it."""
    documents = [document for document in rendered(chart, values) if document["kind"] in kinds]
    control_plane.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(documents))
    wait_established(control_plane.api)


def wait_established(api: ApiClient, crd: str = CRD) -> None:
    """Wait until the API server serves a kind; `kubectl wait` fails on a CRD that has no conditions yet."""

    def established() -> bool:
        found = api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd}")
        conditions = found.get("status", {}).get("conditions") or []
        return any((each["type"], each["status"]) == ("Established", "True") for each in conditions)

    wait_until(established, 30, lambda: f"{crd} is not established after 30 s.", 0.1)


def operator_rules() -> list[tuple[str, dict[str, Any]]]:
    """Return (namespace, rule) of every rule bound to the operator; no namespace means all."""
    documents = rendered()
    bound = {
        (binding["metadata"].get("namespace", ""), binding["roleRef"]["name"])
        for binding in documents
        if binding["kind"] in {"RoleBinding", "ClusterRoleBinding"}
    }
    return [
        (role["metadata"].get("namespace", ""), rule)
        for role in documents
        if role["kind"] in {"Role", "ClusterRole"}
        and (role["metadata"].get("namespace", ""), role["metadata"]["name"]) in bound
        for rule in role["rules"]
    ]


def operator_rights() -> set[tuple[str, str, str]]:
    """Return (namespace, verb, resource) of everything that the operator may do."""
    return {
        (namespace, verb, resource)
        for namespace, rule in operator_rules()
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }
