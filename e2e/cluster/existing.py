"""Any running cluster, by its kubeconfig. It is used, but never taken down."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import control_plane, volumes
from e2e.cluster.audit import AuditLog
from e2e.cluster.interface import ClusterError


@dataclass(frozen=True)
class ExistingCluster:
    """A cluster that was not started here."""

    name: str
    kubeconfig: Path

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the names of its nodes."""
        found = json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]
        return tuple(item["metadata"]["name"] for item in found)

    @property
    def audit(self) -> AuditLog | None:
        """Return None: its audit log is not accessible."""
        return None

    @property
    def server_place(self) -> None:
        """Return None: its pods do not reach this machine."""
        return None

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl with its kubeconfig."""
        return control_plane.kubectl(self.kubeconfig, *arguments, stdin=stdin)

    def load_image(self, archive: Path, ref: str) -> None:
        """Raise ClusterError: its nodes pull images from a registry."""
        raise ClusterError(
            f"{archive.name} cannot be loaded into cluster {self.name}, which is not on this machine: push it to a "
            f"registry that its nodes reach, and name that image instead of {ref}."
        )

    def shared_volume(self, namespace: str, name: str) -> None:
        """Create a ReadWriteMany claim of the default storage class, which the cluster must support."""
        self.kubectl(
            "apply",
            "-f",
            "-",
            stdin=json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        )
        claim = volumes.claim(namespace, name, storage_class="")
        self.kubectl("apply", "-f", "-", stdin=json.dumps(claim))

    def down(self) -> None:
        """Do nothing: the cluster was not started here."""


def attach(name: str, kubeconfig: Path) -> ExistingCluster:
    """Return the cluster behind `kubeconfig`; ClusterError where it does not answer."""
    if not kubeconfig.exists():
        raise ClusterError(f"There is no kubeconfig at {kubeconfig}: name one with --kubeconfig or KUBECONFIG.")
    cluster = ExistingCluster(name, kubeconfig)
    try:
        cluster.kubectl("get", "--raw", "/readyz", "--request-timeout=10s")
    except ClusterError as error:
        raise ClusterError(f"The cluster of {kubeconfig} does not answer: {error}") from None
    return cluster
