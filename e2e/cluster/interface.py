"""The interface of a cluster for scenarios, the demo and measurements.

Three providers implement it: `kind` (where docker runs), `embedded` (network
namespaces on one Linux machine) and `existing` (any kubeconfig).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pathlib import Path

    from e2e.cluster.audit import AuditLog


class ClusterError(Exception):
    """One sentence for a person: what is wrong, where, and what to do next."""


@dataclass(frozen=True)
class ServerPlace:
    """Where a server has to run to be reached by pods: its address, and the command that runs another one there."""

    address: str
    enter: tuple[str, ...] = ()


@runtime_checkable
class Cluster(Protocol):
    """A running Kubernetes cluster."""

    @property
    def name(self) -> str:
        """The name that `up` was given."""

    @property
    def kubeconfig(self) -> Path:
        """Administrator's kubeconfig, usable by any process of this machine."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Node names, in order."""

    @property
    def audit(self) -> AuditLog | None:
        """Every request that the API server served, where the provider can tell."""

    @property
    def server_place(self) -> ServerPlace | None:
        """Where a server of this machine runs for the cluster's pods, if they can reach one."""

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as administrator and return its standard output.

        Raises ClusterError with kubectl's own words where it fails.
        """

    def load_image(self, archive: Path, ref: str) -> None:
        """Load the image in a docker or OCI archive into every node as `ref`."""

    def shared_volume(self, namespace: str, name: str) -> Path | None:
        """Bind a ReadWriteMany claim `name` in `namespace`, writable by any user id.

        The namespace is created where it is missing. Returns the directory
        behind the claim where it lies on this machine.
        """

    def down(self) -> None:
        """Remove the cluster with everything that `up` created. Idempotent."""


@runtime_checkable
class NodeFaults(Protocol):
    """What can be done to a node of a cluster that runs on this machine."""

    @property
    def unready_seconds(self) -> float:
        """The seconds of silence after which a node is not ready."""

    def stop_node(self, node: str) -> None:
        """Power the node off: kubelet, containerd and all containers end at once."""

    def start_node(self, node: str) -> None:
        """Boot a stopped node again; its disk is kept."""

    def disconnect_node(self, node: str) -> None:
        """Take the node's network link down; everything on it keeps running."""

    def reconnect_node(self, node: str) -> None:
        """Bring the node's network link up again."""

    def stop_process(self, node: str, process: str) -> None:
        """Kill one process of a node: `kubelet`, `containerd` or `kube-proxy`."""

    def start_process(self, node: str, process: str) -> None:
        """Restart it."""
