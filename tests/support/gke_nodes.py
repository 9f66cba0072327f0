"""Simulated nodes like those of GKE: labels of a pool, and accelerators, which taint them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from e2e.cluster import kwok
from e2e.cluster.api_client import ApiClient

SPOT: Final = "cloud.google.com/gke-spot"


def gke_node(name: str, labels: Mapping[str, str], resources: Mapping[str, int]) -> dict[str, Any]:
    """Return a node with the labels of its pool and so much of each resource; spot machines are tainted too."""
    node = kwok.node(name)
    node["metadata"]["labels"] |= labels
    taints = [{"key": SPOT, "value": "true", "effect": "NoSchedule"}] if SPOT in labels else []
    taints += [{"key": resource, "value": "present", "effect": "NoSchedule"} for resource in resources]
    room = node["status"]["capacity"] | {resource: str(count) for resource, count in resources.items()}
    node["status"] |= {"capacity": room, "allocatable": room}
    return node | {"spec": {"taints": taints}}


@contextmanager
def nodes(api: ApiClient, given: Iterable[dict[str, Any]]) -> Iterator[None]:
    """Create nodes; they are deleted at the end."""
    names = []
    try:
        for node in given:
            api.create("/api/v1/nodes", node)
            names.append(node["metadata"]["name"])
        yield
    finally:
        for name in names:
            api.delete(f"/api/v1/nodes/{name}")
