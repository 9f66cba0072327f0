"""The three providers of clusters, behind one interface."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from e2e.cluster import binaries, embedded, existing, kind, prerequisites
from e2e.cluster.interface import Cluster, ClusterError

PROVIDERS = ("kind", "embedded", "existing")


def require(provider: str) -> None:
    """Raise ClusterError where this machine cannot run such a cluster; to check before building anything."""
    if provider == "embedded" and (problem := prerequisites.unsupported_reason()):
        raise ClusterError(problem)
    if provider == "kind":
        kind.require_docker()


def programs(provider: str) -> tuple[str, ...]:
    """Return the names of the programs that are built for a provider."""
    match provider:
        case "embedded":
            return binaries.CLUSTER
        case "kind":
            return kind.programs()
    return ("kubectl",)


def up(
    provider: str = "embedded",
    name: str = "dtj",
    *,
    nodes: int = 2,
    port: int = 0,
    kubeconfig: Path | None = None,
    images: Mapping[str, Path] | None = None,
) -> Cluster:
    """Start a cluster, or use the running one, with `images` (ref to archive) on every node."""
    cluster: Cluster
    match provider:
        case "embedded":
            return embedded.up(name, nodes=nodes, port=port, images=images)
        case "kind":
            cluster = kind.up(name, nodes=nodes, port=port)
        case "existing":
            cluster = existing.attach(name, _chosen(kubeconfig))
        case _:
            raise ClusterError(f"{provider!r} is not a provider: choose one of {', '.join(PROVIDERS)}.")
    for ref, archive in (images or {}).items():
        cluster.load_image(archive, ref)
    return cluster


def attach(provider: str = "embedded", name: str = "dtj", *, kubeconfig: Path | None = None) -> Cluster:
    """Return a running cluster; ClusterError where it does not run."""
    match provider:
        case "embedded":
            return embedded.attach(name)
        case "kind":
            return kind.attach(name)
        case "existing":
            return existing.attach(name, _chosen(kubeconfig))
    raise ClusterError(f"{provider!r} is not a provider: choose one of {', '.join(PROVIDERS)}.")


def problems(cluster: Cluster) -> list[str]:
    """Return what is wrong with a running cluster, a sentence each."""
    if isinstance(cluster, embedded.EmbeddedCluster):
        return cluster.problems()
    try:
        cluster.kubectl("get", "--raw", "/readyz")
    except ClusterError as error:
        return [str(error)]
    return []


def _chosen(kubeconfig: Path | None) -> Path:
    if kubeconfig:
        return kubeconfig
    if named := os.environ.get("KUBECONFIG", "").split(":")[0]:
        return Path(named)
    return Path.home() / ".kube" / "config"
