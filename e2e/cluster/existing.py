"""Any running cluster, by its kubeconfig. It is used, never taken down."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import control_plane, volumes
from e2e.cluster.audit import AuditLog
from e2e.cluster.interface import ClusterError


@dataclass(frozen=True)
class ExistingCluster:
    """A cluster that somebody else runs."""

    name: str
    kubeconfig: Path

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of its nodes."""
        found = json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]
        return tuple(item["metadata"]["name"] for item in found)

    @property
    def audit(self) -> AuditLog | None:
        """Its audit log is out of reach."""
        return None

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl with its kubeconfig."""
        return control_plane.kubectl(self.kubeconfig, *arguments, stdin=stdin)

    def load_image(self, archive: Path, ref: str) -> None:
        """Nodes of a foreign cluster take images from a registry alone."""
        raise ClusterError(
            f"{archive.name} cannot be loaded into cluster {self.name}, which is not on this machine: push it to a "
            f"registry that its nodes reach, and name that image instead of {ref}."
        )

    def shared_volume(self, namespace: str, name: str) -> None:
        """A ReadWriteMany claim of the default storage class; whether one serves it is that cluster's affair."""
        self.kubectl(
            "apply",
            "-f",
            "-",
            stdin=json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        )
        claim = volumes.claim(namespace, name, storage_class="")
        self.kubectl("apply", "-f", "-", stdin=json.dumps(claim))

    def down(self) -> None:
        """Nothing: it was not started here."""


def attach(name: str, kubeconfig: Path) -> ExistingCluster:
    """The cluster behind `kubeconfig`; ClusterError where it does not answer."""
    if not kubeconfig.exists():
        raise ClusterError(f"There is no kubeconfig at {kubeconfig}: name one with --kubeconfig or KUBECONFIG.")
    cluster = ExistingCluster(name, kubeconfig)
    try:
        cluster.kubectl("get", "--raw", "/readyz", "--request-timeout=10s")
    except ClusterError as error:
        raise ClusterError(f"The cluster of {kubeconfig} does not answer: {error}") from None
    return cluster
